package cli

import (
	"errors"
	"fmt"
	"testing"

	"github.com/hashicorp/go-multierror"
	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// What cannot be reached is to be mended; a quarantine ends by itself.
func TestMastersThatCannotBeReachedComeFirst(t *testing.T) {
	waits := func(why string) error { return fmt.Errorf("%w for another 5s: %s", pool.ErrQuarantined, why) }
	nodes := []redlock.NodeStats{
		{Stats: pool.Stats{Endpoint: "a", State: pool.Up}, Barred: waits("it lost its keys")},
		{Stats: pool.Stats{Endpoint: "b", State: pool.Up}, Barred: waits("or after `redlock init`")},
		{Stats: pool.Stats{Endpoint: "c", State: pool.Down}},
	}
	failure := &redlock.QuorumError{Op: "ready", Need: 2}
	for _, n := range []*redlock.NodeError{{Endpoint: "b", Err: nodes[1].Barred}, {Endpoint: "c", Err: errors.New("refused")}} {
		failure.Nodes = multierror.Append(failure.Nodes, n)
	}
	assert.Equal(t, "no quorum: 0 of 3 masters vote, 2 are needed\n"+
		"  c: refused\n"+
		"  b: quarantined for another 5s: or after `redlock init`\n"+
		"  a: quarantined for another 5s: it lost its keys (wait that long, or see `redlock doctor`)",
		Explain(failure, nodes...))
	Explain(failure)
	assert.ErrorContains(t, failure.Nodes.Errors[0], "b: ", "the error is as it was: others may read it meanwhile")
	assert.Contains(t, Explain(&redlock.QuorumError{Op: "ready", Need: 1}, nodes[:1]...), "no quorum: 0 of 1 master votes, 1 is needed\n")
}
