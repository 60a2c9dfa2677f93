package versus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// redquorumPeer is this library.
type redquorumPeer struct{ locker *redlock.Locker }

// patience is the node timeout, as long as redsync's. With the default of half a second, a machine
// that is busy with something else for that long would fail the measurement. It changes nothing
// that is measured.
const patience = 4 * time.Second

func openRedquorum(s setup) (peer, error) {
	return openRedquorumWith(s, redlock.WithNodeTimeout(patience))
}

// openRedquorumAsIs is for outages, which the node timeout bounds.
func openRedquorumAsIs(s setup) (peer, error) { return openRedquorumWith(s) }

func openRedquorumWith(s setup, opts ...redlock.Option) (peer, error) {
	locker, err := redlock.New(s.addresses, opts...)
	if err != nil {
		return nil, err
	}
	if err := awaitNodes(locker); err != nil {
		return nil, errors.Join(err, locker.Close())
	}
	return &redquorumPeer{locker}, nil
}

// nodesTimeout bounds connecting to servers on this machine.
const nodesTimeout = 10 * time.Second

// awaitNodes waits until every node is connected and votes: no measurement includes a dial.
func awaitNodes(locker *redlock.Locker) error {
	for deadline := time.Now().Add(nodesTimeout); ; time.Sleep(time.Millisecond) {
		down := slices.IndexFunc(locker.Stats().Nodes, func(node redlock.NodeStats) bool {
			return node.State != pool.Up || node.Barred != nil
		})
		if down < 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("node %d does not vote after %v", down, nodesTimeout)
		}
	}
}

func (p *redquorumPeer) lockUnlock(ctx context.Context, locks batch) error {
	lock, err := p.locker.TryLock(ctx, locks.names[0])
	if err != nil {
		return err
	}
	return lock.Unlock(ctx)
}

func (p *redquorumPeer) close() error { return p.locker.Close() }
