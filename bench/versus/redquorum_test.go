package versus

import (
	"context"

	"github.com/redquorum/redquorum/redlock"
)

// redquorumPeer is this library.
type redquorumPeer struct{ locker *redlock.Locker }

func openRedquorum(s setup) (peer, error) {
	locker, err := redlock.New(s.addresses)
	if err != nil {
		return nil, err
	}
	return &redquorumPeer{locker}, nil
}

func (p *redquorumPeer) lockUnlock(ctx context.Context, locks batch) error {
	lock, err := p.locker.TryLock(ctx, locks.names[0])
	if err != nil {
		return err
	}
	return lock.Unlock(ctx)
}

func (p *redquorumPeer) close() error { return p.locker.Close() }
