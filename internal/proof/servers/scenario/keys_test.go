package scenario_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// A keyRow is what docs/operations.md says of the keys with a prefix.
type keyRow struct {
	bytes int
	life  string
	seen  bool
}

// keyTable reads the table of keys: by what comes before NAME, or the whole key.
func keyTable(t *testing.T) map[string]*keyRow {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "operations.md"))
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(text), "\n## Keys\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := map[string]*keyRow{}
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.TrimSpace(strings.ReplaceAll(line, `\|`, "/")), " | ")
		key, isKey := strings.CutPrefix(cells[0], "| `")
		if !isKey || len(cells) != 4 {
			continue
		}
		key = strings.TrimSuffix(key, "`")
		prefix, rest, _ := strings.Cut(key, "NAME")
		switch rest {
		case "#i":
			prefix = "#"
		case "#missed":
			prefix += rest
		}
		prefix = strings.Replace(prefix, "PREFIX", "", 1)
		bytes, err := strconv.Atoi(cells[2])
		require.NoError(t, err, line)
		rows[prefix] = &keyRow{bytes: bytes, life: strings.TrimSuffix(cells[3], " |")}
	}
	return rows
}

// Every key of ours is in the table, and is no larger and lives for as long as it says.
func TestTheTableOfKeysIsTrue(t *testing.T) {
	const ttl, maxTTL = time.Minute, 100 * time.Second
	c := cluster.Start(t, 1)
	options := []redlock.Option{redlock.WithMaxTTL(maxTTL), redlock.WithTTL(ttl), redlock.WithoutRenewal(), redlock.WithOwner("app@host:12345 program")}
	l, other := cluster.NewLocker(t, c.URLs(), options...), cluster.NewLocker(t, c.URLs(), options...)
	m := c.Masters[0]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waits := func(acquire func() (*redlock.Lock, error)) { go func() { _, _ = acquire() }() } //nolint:errcheck // it ends with the test
	held := func(lock *redlock.Lock, err error) *redlock.Lock { require.NoError(t, err); return lock }

	held(l.TryLock(ctx, "orders/00000000-mutex", redlock.WithFencing()))
	waits(func() (*redlock.Lock, error) { return other.Lock(ctx, "orders/00000000-mutex") })
	_, err := m.Do("SET", "orders/00000000-other", "foreign", "PX", ttl.Milliseconds())
	require.NoError(t, err)
	waits(func() (*redlock.Lock, error) { return other.Lock(ctx, "orders/00000000-other") })
	held(l.TryRLock(ctx, "orders/00000000-reads"))
	waits(func() (*redlock.Lock, error) { return other.Lock(ctx, "orders/00000000-reads") })
	for i, lock := range []*redlock.Locker{l, other} {
		s, err := lock.Semaphore("orders/00000000-sem", 1)
		require.NoError(t, err)
		if i == 0 {
			held(s.TryAcquire(ctx))
		} else {
			waits(func() (*redlock.Lock, error) { return s.Acquire(ctx) })
		}
	}
	held(l.TryLock(ctx, "orders/00000000-force", redlock.WithHistory()))
	_, err = other.TryLock(ctx, "orders/00000000-force", redlock.WithHistory())
	require.ErrorIs(t, err, redlock.ErrTaken)
	require.NoError(t, admin.Of(other).ForceUnlock(ctx, "orders/00000000-force"))
	e, err := election.New(l, "orders/00000000-elect", election.WithID("app@host:12345 program"))
	require.NoError(t, err)
	go func() { _ = e.Run(ctx, func(ctx context.Context, _ int64) error { <-ctx.Done(); return nil }) }() //nolint:errcheck // it ends with the test
	adopted := held(l.TryLock(ctx, "orders/00000000-adopt"))
	_, err = m.Do("ACL", "SETUSER", "default", "-del") // so that the note stays
	require.NoError(t, err)
	held(other.Adopt(ctx, "orders/00000000-adopt", adopted.Value()))

	lives := map[string][2]time.Duration{ // at least, and at most
		"ever":    {-time.Millisecond, -time.Millisecond},
		"the TTL": {ttl / 2, ttl},
		"2 · TTL, or until the last permit is given back": {3 * ttl / 2, 2 * ttl},
		"3 s":         {time.Second, 3 * time.Second},
		"10 to 130 s": {5 * time.Second, 130 * time.Second},
		"3 minutes":   {2 * time.Minute, 3 * time.Minute},
		"30 days":     {29 * 24 * time.Hour, 30 * 24 * time.Hour},
		"90 days":     {89 * 24 * time.Hour, 90 * 24 * time.Hour},
		"10 · MaxTTL after the last lock, at least 10 minutes": {9 * maxTTL, 10 * maxTTL},
	}
	rows := keyTable(t)
	delete(rows, "…redquorum:doctor:…")
	// What waits comes when it comes, and renews its keys again and again: each has all of its life
	// at some moment.
	full := map[string]bool{}
	cluster.Eventually(t, time.Minute, func() (missing string) {
		keys, err := m.Keys()
		require.NoError(t, err)
		for _, key := range append(keys, "redquorum:memory", "redquorum:members") {
			prefix := key
			if before, _, named := strings.Cut(key, "orders/"); named {
				prefix = before + map[bool]string{true: "#"}[strings.HasSuffix(key, "#1")] + map[bool]string{true: "#missed"}[strings.HasSuffix(key, "#missed")]
			}
			row := rows[prefix]
			require.NotNil(t, row, "%s is not in the table", key)
			left, err := m.Do("PTTL", key)
			require.NoError(t, err)
			life, known := lives[row.life]
			require.True(t, known, row.life)
			assert.LessOrEqual(t, time.Duration(left.(int64))*time.Millisecond, life[1], key)
			row.seen, full[key] = true, full[key] || time.Duration(left.(int64))*time.Millisecond >= life[0]
			if !full[key] {
				missing = fmt.Sprintf("%s for %s: %d ms", key, row.life, left)
			}
			size, err := m.Do("MEMORY", "USAGE", key)
			require.NoError(t, err)
			if size != nil { // it has ended meanwhile
				assert.LessOrEqual(t, size, int64(row.bytes), "%s", key)
			}
		}
		for prefix, row := range rows {
			if !row.seen {
				missing = fmt.Sprintf("%q is nowhere", prefix)
			}
		}
		return missing
	})
}
