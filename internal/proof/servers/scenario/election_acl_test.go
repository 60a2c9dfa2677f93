package scenario_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/internal/ledger"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// A user with a prefix leads if it may record its terms. Without one of the rights for that it does
// not lead, and Run says so; without ZRANGE nobody leads, for all that it knows.
func TestWhatACLUsersNeedForElections(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 3)
	for user, row := range map[string]struct {
		rules       []any
		leads, sees bool
	}{
		"all":       {[]any{"~redquorum:terms:app:*"}, true, true},
		"no_key":    {nil, false, false},
		"no_zadd":   {[]any{"~redquorum:terms:app:*", "-zadd"}, false, false},
		"no_zcard":  {[]any{"~redquorum:terms:app:*", "-zcard"}, false, false},
		"no_zrange": {[]any{"~redquorum:terms:app:*", "-zrange"}, true, false},
	} {
		var urls []string
		for _, m := range c.Masters {
			args := append(documentedACL(t, "app"), row.rules...)
			args[1] = user
			do(t, m, "ACL", args...)
			urls = append(urls, "redis://"+user+":password@"+m.Addr())
		}
		l := cluster.NewConnected(t, urls, redlock.WithKeyPrefix("app:"), redlock.WithNodeTimeout(patience), redlock.WithTTL(longTTL))
		other := cluster.NewConnected(t, urls, redlock.WithKeyPrefix("app:"), redlock.WithNodeTimeout(patience), redlock.WithTTL(longTTL))
		candidate, err := election.New(l, "x", election.WithID(user))
		require.NoError(t, err)
		watcher, err := election.New(other, "x")
		require.NoError(t, err)
		led := false
		err = candidate.Run(t.Context(), func(ctx context.Context, _ int64) error {
			led = true
			leader, err := watcher.Leader(ctx)
			require.NoError(t, err, user)
			assert.Equal(t, row.sees, leader.ID == user, user)
			return nil
		})
		assert.Equal(t, row.leads, led, user)
		if row.leads {
			require.NoError(t, err, user)
		} else {
			require.ErrorIs(t, err, redlock.ErrNoQuorum, user)
			assert.ErrorContains(t, err, "record", user)
		}
	}
}

// A record that is full needs ZPOPMIN for the next term.
func TestACLUsersWithoutZPOPMINLeadUntilTheRecordIsFull(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 3)
	rules := append(documentedACL(t, "app"), "~redquorum:terms:app:*", "-zpopmin")
	rules[1] = "popless"
	var urls []string
	for _, m := range c.Masters {
		do(t, m, "ACL", rules...)
		for term := range ledger.Kept {
			do(t, m, "ZADD", "redquorum:terms:app:full", term+1, fmt.Sprint(term+1, " past"))
		}
		urls = append(urls, "redis://popless:password@"+m.Addr())
	}
	l := cluster.NewConnected(t, urls, redlock.WithKeyPrefix("app:"), redlock.WithNodeTimeout(patience), redlock.WithTTL(longTTL))
	for name, leads := range map[string]bool{"empty": true, "full": false} {
		candidate, err := election.New(l, name)
		require.NoError(t, err)
		err = candidate.Run(t.Context(), func(context.Context, int64) error { return nil })
		if leads {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			assert.ErrorContains(t, err, "record")
		}
	}
}
