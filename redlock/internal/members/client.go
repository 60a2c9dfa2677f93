package members

import (
	"maps"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/redlock/internal/members/core"
)

// client returns what is known besides what masters say, for a decision of package core.
func (ms *Membership) client() *core.Client {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return ms.clientLocked()
}

// clientLocked is client where mu is held.
func (ms *Membership) clientLocked() *core.Client {
	c := &core.Client{Named: ms.cluster, Nodes: make([]core.Node, len(ms.members)), Lives: maps.Clone(ms.lives)}
	for i := range ms.members {
		n := &ms.members[i]
		c.Nodes[i] = core.Node{
			Listed: i < ms.listed, Duplicate: n.duplicate >= 0, Vacant: n.vacant(), Met: n.seen, Of: n.position.of, ID: n.id,
		}
	}
	for i, node := range ms.Nodes() {
		c.Nodes[i].Up = node.State() == pipeline.Up
		c.Nodes[i].Endpoints = append(c.Nodes[i].Endpoints, node.Endpoint())
		if of := ms.members[i].duplicate; of >= 0 { // an earlier one, which has its own by now
			c.Nodes[of].Endpoints = append(c.Nodes[of].Endpoints, node.Endpoint())
		}
	}
	return c
}
