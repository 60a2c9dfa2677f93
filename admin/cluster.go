package admin

import (
	"context"
	"time"

	"github.com/redquorum/redquorum/internal/door"
)

// Membership is one version of the list of a cluster's members. A quorum is a majority of them,
// whatever list a Locker was given: that is only where it begins to look.
type Membership struct {
	Cluster string        // its random name, for [redlock.WithCluster]
	Version int64         // grows by one with each change
	MaxTTL  time.Duration // of all locks
	Members []Member
	// Next is how long it takes until another change is possible; 0 if it is now.
	Next time.Duration
}

// Member is one master of a cluster.
type Member struct {
	ID       string // random; it stays when the master forgets and comes back
	Endpoint string // by which it was added, without user and password

	// ServerName is the name that its certificate must have; empty for the host of the endpoint.
	ServerName string

	Listed  bool  // the Locker's own list has it, however that spells it
	Up      bool  // it is connected
	Voting  bool  // its vote counts
	Version int64 // that it was told; 0 if that is not known
	Err     error // why its vote does not count; nil if it does
}

// Cluster is the cluster of an [Operator]: the masters of which a majority makes a quorum. The
// masters keep the list of its members themselves, so all clients count by the same one, and it can
// be changed while locks are held. The changes are chosen by the members with promise and accept; a
// master takes part in the next one only when every lock has ended that was counted before the
// last. docs/operations.md says how to replace a master, and docs/safety.md what holds.
type Cluster struct {
	door     door.Door
	progress func(waits string, left time.Duration)
}

// Cluster returns the cluster of the Operator.
func (o *Operator) Cluster() *Cluster {
	return &Cluster{door: o.door, progress: func(string, time.Duration) {}}
}

// Progress returns the cluster with a function that is told, about once a second, what a change
// waits for and how long that takes at least.
func (c *Cluster) Progress(f func(waits string, left time.Duration)) *Cluster {
	if f == nil {
		f = func(string, time.Duration) {}
	}
	return &Cluster{door: c.door, progress: f}
}

// Members asks the masters for the list, and returns it as a majority of its members tells it.
// Otherwise the error is a [*redlock.QuorumError] with [redlock.ErrNoQuorum], [redlock.ErrInvalid]
// if masters of two clusters are listed, [redlock.ErrClosed], or the error of a ctx that ended,
// with which Members returns at once.
func (c *Cluster) Members(ctx context.Context) (Membership, error) {
	told, err := c.door.Members(ctx)
	m := Membership{Cluster: told.ID, Version: told.Version, MaxTTL: told.MaxTTL, Next: told.Next}
	for _, one := range told.Members {
		m.Members = append(m.Members, Member(one))
	}
	return m, err
}

// Add makes a master a member. It returns when the new master votes, and all members know of it, or
// when ctx ends; then it may still become a member, and Add goes on where it stopped. The master
// must be new, or have been removed from this cluster, otherwise the error is
// [redlock.ErrOtherCluster]. To add a member does nothing.
func (c *Cluster) Add(ctx context.Context, endpoint string) error {
	return c.door.Add(ctx, endpoint, c.progress)
}

// Remove removes a member by its ID, whether it is up or not. It returns when all other members
// know of it, or when ctx ends; then it may still be removed. To remove what is no member is
// [redlock.ErrNotMember]. The last member cannot be removed, and of two both must be up.
func (c *Cluster) Remove(ctx context.Context, id string) error {
	return c.door.Remove(ctx, id, c.progress)
}

// SetMaxTTL sets the longest TTL of the cluster's locks, from 10 ms to 24 h. A shorter one is in
// force at once, but a master that forgets waits for the longer of the last two; a longer one is
// when all members know it. It returns like [Cluster.Add].
func (c *Cluster) SetMaxTTL(ctx context.Context, d time.Duration) error {
	return c.door.SetMaxTTL(ctx, d, c.progress)
}
