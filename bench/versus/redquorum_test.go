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

func openRedquorum(s setup) (peer, error) {
	locker, err := redlock.New(s.addresses)
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
