package contention

import (
	"cmp"
	"context"
	"errors"

	"github.com/redquorum/redquorum/election"
)

// OpenElection opens elections of this library: to lock is to be elected, to unlock is to resign.
func OpenElection(ctx context.Context, setup Setup) (Mutex, error) {
	m, err := open(ctx, setup)
	return elected{m}, err
}

// elected is the candidates of a process, each with an Election of its own.
type elected struct{ *Redquorum }

// term is a leadership that lasts until it is resigned.
type term struct {
	election *election.Election
	over     <-chan error
}

func (t term) Unlock(ctx context.Context) error {
	if err := t.election.Resign(ctx); err != nil {
		return err
	}
	return <-t.over
}

// errTermOver: the lock was lost before Lock could return.
var errTermOver = errors.New("contention: the term was over at once")

// Lock is elected when lead is called. From then on the term outlasts ctx, as a lock does: a worker
// whose time is over still holds the name until it resigns.
func (m elected) Lock(ctx context.Context, name string) (Unlocker, error) {
	e, err := election.New(m.Locker, name)
	if err != nil {
		return nil, err
	}
	campaign, end := context.WithCancel(context.WithoutCancel(ctx))
	stopWatching := context.AfterFunc(ctx, end)
	leads, over := make(chan struct{}), make(chan error, 1)
	go func() {
		over <- e.Run(campaign, func(ctx context.Context, _ int64) error {
			close(leads)
			<-ctx.Done()
			end() // one term
			return nil
		})
	}()
	select {
	case <-leads:
		if stopWatching() {
			return term{e, over}, nil
		}
		err = <-over // ctx ended at the same moment, and with it the term
	case err = <-over:
	}
	end()
	return nil, cmp.Or(err, ctx.Err(), errTermOver)
}
