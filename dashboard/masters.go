package dashboard

import (
	"context"
	"slices"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/door"
	"github.com/redquorum/redquorum/internal/journal"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// answerTimeout bounds a question: until then, what is shown is old.
const answerTimeout = time.Second

// listBound bounds a list of all locks.
const listBound = 20 * time.Second

// masters are the members, whatever the list was: the Locker follows them. Its methods may be
// called from any goroutine.
type masters struct{ lister *survey.Lister }

func openMasters(ctx context.Context, endpoints []string, with *settings) (*masters, error) {
	reached := slices.Concat([]pool.Option{pool.WithClientName("redlock-dashboard")}, with.pool)
	locker, err := redlock.New(endpoints, append(survey.AskOptions(with.maxTTL, answerTimeout),
		redlock.WithKeyPrefix(with.keyPrefix), redlock.WithMaxTTL(with.maxTTL), redlock.WithPool(reached...))...)
	if err != nil {
		return nil, err
	}
	survey.AwaitMembers(ctx, clock.System(), locker)
	return &masters{&survey.Lister{
		Locker: locker, KeyPrefix: with.keyPrefix, Timeout: answerTimeout, Pattern: "*", Bounds: with.bounds, Bound: listBound,
	}}, nil
}

func (m *masters) close() { _ = m.lister.Locker.Close() } //nolint:errcheck // it holds no locks

func (m *masters) stats() redlock.Stats { return m.lister.Locker.Stats() }

func (m *masters) examine(ctx context.Context) []survey.Vitals { return m.lister.Examine(ctx) }

func (m *masters) list(ctx context.Context) (survey.Listing, error) { return m.lister.List(ctx) }

func (m *masters) inspect(ctx context.Context, names []string, maySemaphore func(string) bool) ([]survey.Inspection, error) {
	return m.lister.Inspect(ctx, names, maySemaphore)
}

func (m *masters) members(ctx context.Context) (survey.Members, error) {
	told, err := admin.Of(m.lister.Locker).Cluster().Members(ctx)
	if err != nil {
		return survey.Members{}, err
	}
	stats := m.stats()
	return survey.MembersOf(&told, survey.CompareList(&told, &stats)), nil
}

func (m *masters) log(ctx context.Context) (survey.Events, error) {
	entries, err := door.Of(m.lister.Locker).ReadLog(ctx)
	return survey.Events{Complete: err == nil, Events: append([]journal.Entry{}, entries...)}, err
}

func (m *masters) force(ctx context.Context, name, digest, reason string) (survey.Release, error) {
	return survey.Force(ctx, m.lister.Locker, m.lister.KeyPrefix, name, digest, reason)
}
