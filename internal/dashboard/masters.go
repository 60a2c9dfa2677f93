package dashboard

import (
	"context"
	"slices"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/journal"
	"github.com/redquorum/redquorum/internal/survey"
	"github.com/redquorum/redquorum/redlock"
)

// answerTimeout bounds a question: until then, what is shown is old.
const answerTimeout = time.Second

// followPause is between two attempts to connect to other members.
const followPause = 10 * time.Second

// masters are the masters of a list, and the members that it lacks. One goroutine uses them.
type masters struct {
	config  Config
	lister  *survey.Lister
	version int64 // of the list of members when the lister was opened
	opened  clock.Instant
}

func openMasters(ctx context.Context, config Config) (*masters, error) {
	m := &masters{config: config}
	return m, m.open(ctx)
}

func (m *masters) open(ctx context.Context) error {
	m.opened = clock.System().Now()
	nodes, err := m.config.Dial()
	if err != nil {
		return err
	}
	config := survey.Config{
		KeyPrefix: m.config.KeyPrefix, MaxTTL: m.config.MaxTTL, Timeout: answerTimeout, Options: m.config.Options,
	}
	lister, err := survey.NewLister(ctx, nodes, config)
	if err != nil {
		return err
	}
	lister.Bounds = m.config.Bounds
	stats := lister.Locker.Stats()
	if m.lister != nil && stats.Version < m.version { // the list is older than the members that are known
		lister.Close()
		return nil
	}
	if m.lister != nil {
		m.lister.Close()
	}
	m.lister, m.version = lister, stats.Version
	return nil
}

// follow connects anew when the members have changed since.
func (m *masters) follow(ctx context.Context) {
	if stats := m.lister.Locker.Stats(); stats.Version != m.version && clock.System().Now().Sub(m.opened) > followPause {
		_ = m.open(ctx) //nolint:errcheck // what is there is kept
	}
}

func (m *masters) close() { m.lister.Close() }

func (m *masters) stats() redlock.Stats {
	stats := m.lister.Locker.Stats()
	stats.Nodes = stats.Nodes[:min(len(stats.Nodes), len(m.lister.Nodes))]
	return stats
}

func (m *masters) examine(ctx context.Context) []survey.Vitals { return m.lister.Examine(ctx) }

func (m *masters) list(ctx context.Context) (survey.Listing, error) { return m.lister.List(ctx) }

func (m *masters) inspect(ctx context.Context, names []string, maySemaphore func(string) bool) ([]survey.Inspection, error) {
	return m.lister.Inspect(ctx, names, maySemaphore)
}

func (m *masters) members(ctx context.Context) (survey.Members, error) {
	told, err := m.lister.Locker.Cluster().Members(ctx)
	if err != nil {
		return survey.Members{}, err
	}
	// The lister has the members that the list lacks, so the flaws are those of when it was opened.
	v := survey.MembersOf(&told, m.lister.Flaws)
	for i := range v.Members {
		one := &v.Members[i]
		one.Listed = !slices.ContainsFunc(v.List, func(f survey.Flaw) bool { return f.Check == survey.Missing && f.Endpoint == one.Endpoint })
	}
	return v, nil
}

func (m *masters) log(ctx context.Context) (survey.Events, error) {
	entries, err := m.lister.Locker.Journal(journal.Key{}).Read(ctx)
	return survey.Events{Complete: err == nil, Events: append([]journal.Entry{}, entries...)}, err
}

func (m *masters) force(ctx context.Context, name, reason string) (survey.Release, error) {
	return survey.Force(ctx, m.lister.Locker, m.config.KeyPrefix, name, reason)
}
