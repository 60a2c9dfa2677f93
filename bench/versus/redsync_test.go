package versus

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	redsyncredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	redsyncrueidis "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
)

// redsyncPeer is redsync over any driver.
type redsyncPeer struct {
	redsync *redsync.Redsync
	drivers []func() error   // each closes the driver of one server
	options []redsync.Option // of every mutex, after those of lockUnlock
	unlock  time.Duration    // bounds a release; 0: the caller's context does
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
	if p.unlock > 0 {
		bounded, cancel := context.WithTimeout(ctx, p.unlock)
		defer cancel()
		ctx = bounded
	}
	switch ok, err := mutex.UnlockContext(ctx); {
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("%s was not released", locks.names[0])
	default:
		return nil
	}
}

func (p *redsyncPeer) close() error {
	var errs []error
	for _, closeDriver := range p.drivers {
		errs = append(errs, closeDriver())
	}
	return errors.Join(errs...)
}

// idleTime is how long idle connections are kept: longer than any report.
const idleTime = 10 * time.Minute

func openRedigo(s setup) (peer, error) {
	p := &redsyncPeer{}
	var pools []redsyncredis.Pool
	for _, address := range s.addresses {
		pool := &redis.Pool{
			MaxIdle:     s.goroutines,
			IdleTimeout: idleTime,
			DialContext: func(ctx context.Context) (redis.Conn, error) {
				return redis.DialContext(ctx, "tcp", address, s.redigoDialer()...)
			},
		}
		p.drivers = append(p.drivers, pool.Close)
		pools = append(pools, redsyncredigo.NewPool(pool))
	}
	p.redsync = redsync.New(pools...)
	return p, nil
}

// redigoDialer returns the option of redigo that connects by s.dial.
func (s *setup) redigoDialer() []redis.DialOption {
	if s.dial == nil {
		return nil
	}
	return []redis.DialOption{redis.DialContextFunc(s.dial)}
}

func openGoRedis(s setup) (peer, error) {
	p := &redsyncPeer{}
	var pools []redsyncredis.Pool
	for _, address := range s.addresses {
		client := s.goRedis(address)
		p.drivers = append(p.drivers, client.Close)
		pools = append(pools, redsyncgoredis.NewPool(client))
	}
	p.redsync = redsync.New(pools...)
	return p, nil
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
	p := &redsyncPeer{}
	var pools []redsyncredis.Pool
	for _, address := range s.addresses {
		client := s.goRedis(address)
		p.drivers = append(p.drivers, client.Close)
		pipelined, err := client.AutoPipeline()
		if err != nil {
			return nil, errors.Join(err, p.close())
		}
		pools = append(pools, redsyncgoredis.NewPool(pipelined))
	}
	p.redsync = redsync.New(pools...)
	return p, nil
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
	p := &redsyncPeer{}
	var pools []redsyncredis.Pool
	option.DisableCache = true
	if s.dial != nil {
		option.DialCtxFn = func(ctx context.Context, address string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return s.dial(ctx, "tcp", address)
		}
	}
	for _, address := range s.addresses {
		option.InitAddress = []string{address}
		client, err := rueidis.NewClient(option)
		if err != nil {
			return nil, errors.Join(err, p.close())
		}
		p.drivers = append(p.drivers, func() error { client.Close(); return nil })
		pools = append(pools, redsyncrueidis.NewPool(rueidiscompat.NewAdapter(client)))
	}
	p.redsync = redsync.New(pools...)
	return p, nil
}
