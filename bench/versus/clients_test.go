package versus

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	redsyncredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	redsyncrueidis "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/redlock"
)

// redquorumPeer is this library.
type redquorumPeer struct{ *contention.Redquorum }

// patience is the node timeout, as long as redsync's. With the default of half a second, a machine
// that is busy with something else for that long would fail the measurement. It changes nothing
// that is measured.
const patience = 4 * time.Second

func openRedquorum(s setup) (peer, error) {
	opened, err := newLocker(s.addresses, redlock.WithNodeTimeout(patience))
	return redquorumPeer{opened}, err
}

// nodesTimeout bounds connecting to servers on this machine.
const nodesTimeout = 30 * time.Second

// newLocker waits until every node is connected and votes: no measurement includes a dial.
func newLocker(addresses []string, opts ...redlock.Option) (*contention.Redquorum, error) {
	ctx, cancel := context.WithTimeout(context.Background(), nodesTimeout)
	defer cancel()
	return contention.NewRedquorum(ctx, addresses, opts...)
}

func (p redquorumPeer) lockUnlock(ctx context.Context, locks batch) error {
	lock, err := p.TryLock(ctx, locks.names[0])
	if err != nil {
		return err
	}
	return lock.Unlock(ctx)
}

// redsyncPeer is redsync over any driver.
type redsyncPeer struct {
	redsync *redsync.Redsync
	drivers []func() error   // each closes the driver of one server
	options []redsync.Option // of every mutex, after those of lockUnlock
}

// redsyncPatience is the share of its expiry, 8 s, that redsync gives an attempt. With its default
// of 0.05, a machine that is busy with something else for 400 ms, or with 1,280 dials, would fail
// the measurement. It changes nothing that is measured.
const redsyncPatience = 0.5

func (p *redsyncPeer) lockUnlock(ctx context.Context, locks batch) error {
	options := append([]redsync.Option{redsync.WithTries(1), redsync.WithTimeoutFactor(redsyncPatience)}, p.options...)
	mutex := p.redsync.NewMutex(locks.names[0], options...)
	if err := mutex.LockContext(ctx); err != nil {
		return err
	}
	return held{mutex}.Unlock(ctx)
}

// Lock waits for the lock, as the options say.
func (p *redsyncPeer) Lock(ctx context.Context, name string) (contention.Unlocker, error) {
	mutex := p.redsync.NewMutex(name, p.options...)
	if err := mutex.LockContext(ctx); err != nil {
		return nil, err
	}
	return held{mutex}, nil
}

// held is a lock of redsync.
type held struct{ *redsync.Mutex }

// Unlock fails where redsync says no more than that nothing was released.
func (h held) Unlock(ctx context.Context) error {
	ok, err := h.UnlockContext(ctx)
	if err == nil && !ok {
		err = errors.New("not released")
	}
	return err
}

// Close closes the drivers.
func (p *redsyncPeer) Close() error {
	var errs []error
	for _, closeDriver := range p.drivers {
		errs = append(errs, closeDriver())
	}
	return errors.Join(errs...)
}

// openRedsync makes a redsync over the driver of each server.
func openRedsync(s setup, open func(address string) (redsyncredis.Pool, func() error, error)) (peer, error) {
	p := &redsyncPeer{}
	var pools []redsyncredis.Pool
	for _, address := range s.addresses {
		pool, closeDriver, err := open(address)
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		p.drivers, pools = append(p.drivers, closeDriver), append(pools, pool)
	}
	p.redsync = redsync.New(pools...)
	return p, nil
}

// idleTime is how long idle connections are kept: longer than any report.
const idleTime = 10 * time.Minute

func openRedigo(s setup) (peer, error) {
	return openRedsync(s, func(address string) (redsyncredis.Pool, func() error, error) {
		pool := &redis.Pool{
			MaxIdle:     s.goroutines,
			IdleTimeout: idleTime,
			DialContext: func(ctx context.Context) (redis.Conn, error) {
				return redis.DialContext(ctx, "tcp", address, s.redigoDialer()...)
			},
		}
		return redsyncredigo.NewPool(pool), pool.Close, nil
	})
}

// redigoDialer returns the option of redigo that connects by s.dial.
func (s *setup) redigoDialer() []redis.DialOption {
	if s.dial == nil {
		return nil
	}
	return []redis.DialOption{redis.DialContextFunc(s.dial)}
}

func openGoRedis(s setup) (peer, error) {
	return openRedsync(s, func(address string) (redsyncredis.Pool, func() error, error) {
		client := s.goRedis(address)
		return redsyncgoredis.NewPool(client), client.Close, nil
	})
}

// goRedis returns a client with as many connections as goroutines, which stay.
func (s *setup) goRedis(address string) *goredis.Client {
	return goredis.NewClient(&goredis.Options{
		Addr: address, PoolSize: s.goroutines, MaxIdleConns: s.goroutines, ConnMaxIdleTime: idleTime,
	})
}

// openGoRedisTuned lets go-redis collect the commands of all goroutines into pipelines: twice the
// defaults' throughput at 256 goroutines, at more latency with one.
func openGoRedisTuned(s setup) (peer, error) {
	return openRedsync(s, func(address string) (redsyncredis.Pool, func() error, error) {
		client := s.goRedis(address)
		pipelined, err := client.AutoPipeline()
		if err != nil {
			return nil, nil, errors.Join(err, client.Close())
		}
		return redsyncgoredis.NewPool(pipelined), client.Close, nil
	})
}

func openRueidis(s setup) (peer, error) { return openRueidisWith(s, rueidis.ClientOption{}) }

// rueidisFlushDelay lets rueidis collect commands of other goroutines before it writes. Its authors
// propose 20 µs.
const rueidisFlushDelay = 20 * time.Microsecond

// openRueidisTuned uses one connection per server, always pipelined, so there is the most to send
// at once: up to half as much again as the defaults at 256 goroutines, at a little more latency
// with one.
func openRueidisTuned(s setup) (peer, error) {
	return openRueidisWith(s, rueidis.ClientOption{
		AlwaysPipelining: true, PipelineMultiplex: -1, MaxFlushDelay: rueidisFlushDelay,
	})
}

func openRueidisWith(s setup, option rueidis.ClientOption) (peer, error) {
	option.DisableCache = true
	if s.dial != nil {
		option.DialCtxFn = func(ctx context.Context, address string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return s.dial(ctx, "tcp", address)
		}
	}
	return openRedsync(s, func(address string) (redsyncredis.Pool, func() error, error) {
		option.InitAddress = []string{address}
		client, err := rueidis.NewClient(option)
		if err != nil {
			return nil, nil, err
		}
		return redsyncrueidis.NewPool(rueidiscompat.NewAdapter(client)), func() error { client.Close(); return nil }, nil
	})
}

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

func (p *redislockPeer) Close() error { return p.driver() }
