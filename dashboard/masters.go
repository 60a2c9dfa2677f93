package dashboard

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// answerTimeout bounds a question: until then, what is shown is old.
const answerTimeout = time.Second

// listBound bounds a list of all locks.
const listBound = 20 * time.Second

// askTTL is that of an operator, whose Locker acquires nothing.
const askTTL = 10 * time.Second

// masters are the members, whatever the list was: the operator follows them. Its methods may be
// called from any goroutine.
type masters struct {
	operator *admin.Operator
	query    admin.Query
	prefix   string // of keys
}

func openMasters(ctx context.Context, endpoints []string, with *settings) (*masters, error) {
	reached := slices.Concat([]pool.Option{pool.WithClientName("redlock-dashboard")}, with.pool)
	operator, err := admin.New(endpoints, admin.OnlyLooks(), redlock.WithTTL(min(askTTL, with.maxTTL)), redlock.WithNodeTimeout(answerTimeout),
		redlock.WithKeyPrefix(with.keyPrefix), redlock.WithMaxTTL(with.maxTTL), redlock.WithPool(reached...))
	if err != nil {
		return nil, err
	}
	operator.AwaitMembers(ctx)
	return &masters{operator, with.query, with.keyPrefix}, nil
}

func (m *masters) close() { _ = m.operator.Close() } //nolint:errcheck // it holds no locks

func (m *masters) stats() redlock.Stats { return m.operator.Stats() }

func (m *masters) vitals(ctx context.Context) []admin.Vitals { return m.operator.Vitals(ctx) }

func (m *masters) list(ctx context.Context) (survey.Listing, error) {
	told, err := m.operator.Scan(ctx, m.query)
	return survey.ListingOf(&told, ""), err
}

func (m *masters) inspect(ctx context.Context, names []string, maySemaphore func(string) bool) (all []survey.Inspection, err error) {
	told, err := m.operator.AskAll(ctx, names, maySemaphore)
	for i := range told {
		all = append(all, survey.InspectionOf(&told[i]))
	}
	return all, err
}

func (m *masters) members(ctx context.Context) (survey.Members, error) {
	told, err := m.operator.Cluster().Members(ctx)
	if err != nil {
		return survey.Members{}, err
	}
	stats := m.stats()
	return survey.MembersOf(&told, survey.CompareList(&told, &stats)), nil
}

func (m *masters) log(ctx context.Context) (survey.Events, error) {
	entries, err := m.operator.Log(ctx)
	return survey.EventsOf(entries, err), err
}

func (m *masters) history(ctx context.Context, name string) (survey.Events, error) {
	entries, err := m.operator.History(ctx, name)
	if errors.Is(err, redlock.ErrInvalid) { // no lock can have that name, as the page says
		err = nil
	}
	return survey.EventsOf(entries, err), err
}

func (m *masters) force(ctx context.Context, name, digest, reason string) (survey.Release, error) {
	return survey.Force(ctx, m.operator, m.prefix, name, digest, reason)
}
