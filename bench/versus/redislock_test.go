package versus

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
)

// redislockPeer is bsm/redislock, which locks on one server.
type redislockPeer struct {
	client *redislock.Client
	driver func() error // closes it
}

// redislockTTL is what redsync's locks have.
const redislockTTL = 8 * time.Second

func openRedislock(s setup) (peer, error) {
	client := s.goRedis(s.addresses[0])
	return &redislockPeer{redislock.New(client), client.Close}, nil
}

func openRedislockTuned(s setup) (peer, error) {
	client := s.goRedis(s.addresses[0])
	pipelined, err := client.AutoPipeline()
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &redislockPeer{redislock.New(pipelined), client.Close}, nil
}

func (p *redislockPeer) lockUnlock(ctx context.Context, locks batch) error {
	lock, err := p.client.Obtain(ctx, locks.names[0], redislockTTL, nil)
	if err != nil {
		return err
	}
	return lock.Release(ctx)
}

func (p *redislockPeer) close() error { return p.driver() }
