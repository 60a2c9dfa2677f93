package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/redlock"
)

// Show is embedded masters with locks that come and go, for a page to show.
type Show struct {
	masters *embedded
	locker  *redlock.Locker
	cancel  context.CancelFunc
	players sync.WaitGroup
}

// StartShow starts masters and those who use them. Close it.
func StartShow(ctx context.Context) (*Show, error) {
	e, err := startEmbedded(embeddedNodes)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &Show{masters: e, cancel: cancel}
	s.locker, err = redlock.New(e.endpoints, redlock.WithFencing(), redlock.WithTTL(10*time.Second))
	if err == nil {
		err = s.locker.Ready(ctx)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	s.play(ctx)
	return s, nil
}

// Endpoints are those of the masters.
func (s *Show) Endpoints() []string { return s.masters.endpoints }

// Close ends all of it.
func (s *Show) Close() {
	s.cancel()
	s.players.Wait()
	if s.locker != nil {
		_ = s.locker.Close() //nolint:errcheck // the masters end as well
	}
	s.masters.close()
}

// play starts the players: a lock that is held all the time, with two that wait for it, some that
// change hands, readers, and an election whose leader resigns now and then.
func (s *Show) play(ctx context.Context) {
	use := func(who, name string, hold time.Duration, lock func(context.Context, string, ...redlock.LockOption) (*redlock.Lock, error)) {
		s.players.Go(func() {
			for ctx.Err() == nil {
				held, err := lock(ctx, name, redlock.WithOwner(who))
				if err == nil {
					sleep(held.Context(ctx), hold+rand.N(hold))
					err = held.Unlock(context.WithoutCancel(ctx))
				}
				if sleep(ctx, time.Second/2); err != nil {
					sleep(ctx, time.Second)
				}
			}
		})
	}
	for i := range 3 {
		use(fmt.Sprintf("deploy@web-%d:4711 backup", i+1), "nightly", time.Hour, s.locker.Lock)
		use(fmt.Sprintf("report@db-%d:500", i+1), "catalog", 2*time.Second, s.locker.RLock)
	}
	for i := range 6 {
		use(fmt.Sprintf("shop@web-%d:%d", i%3+1, 3000+i), fmt.Sprintf("orders/%d", 40+i/2), 2*time.Second, s.locker.Lock)
	}
	for i := range 2 {
		s.players.Go(func() {
			e, err := election.New(s.locker, "scheduler", election.WithID(fmt.Sprintf("scheduler@app-%d:21", i+1)))
			for err == nil || errors.Is(err, errResign) {
				err = e.Run(ctx, func(ctx context.Context, _ int64) error {
					sleep(ctx, 20*time.Second+rand.N(20*time.Second))
					return errResign
				})
				if ctx.Err() != nil {
					return
				}
			}
		})
	}
}

var errResign = errors.New("resigns")
