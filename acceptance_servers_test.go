package redquorum_test

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// requireRefused asserts that no lock can be had where all masters are refused for that reason, and that they say so in these
// words: a regular expression. The urls are the masters', with users of their own.
func requireRefused(t *testing.T, urls []string, reason error, words string) {
	t.Helper()
	l := newLocker(t, urls, redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience))
	_, err := l.TryLock(t.Context(), lockName(t))
	t.Log(err)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorIs(t, err, reason)
	assert.Regexp(t, words, err.Error())
	ctx, cancel := context.WithTimeout(t.Context(), slack)
	defer cancel()
	require.ErrorIs(t, l.Ready(ctx), reason)
	for _, node := range l.Stats().Nodes {
		assert.Equal(t, pool.Down, node.State)
		require.ErrorIs(t, node.Err, reason)
		require.ErrorIs(t, node.Err, pool.ErrRefused)
		assert.Regexp(t, words, node.Err.Error())
	}
}

// Without scripts a lock could be neither renewed nor released: its keys would stay until their TTL.
func TestUserWhoMayNotRunScriptsIsGrantedNothing(t *testing.T) {
	t.Parallel()
	for _, denied := range []string{"-evalsha", "-@scripting", "-eval -script"} {
		t.Run(denied, func(t *testing.T) {
			t.Parallel()
			c := startReal(t, 3)
			var urls []string
			for _, m := range c.masters {
				do(t, m, "ACL", "SETUSER", "poor", "on", ">secret", "~*", "&*", "+@all")
				for rule := range strings.FieldsSeq(denied) {
					do(t, m, "ACL", "SETUSER", "poor", rule)
				}
				urls = append(urls, as(t, m, url.UserPassword("poor", "secret"), ""))
			}
			requireRefused(t, urls, pool.ErrNoScripts, `scripts cannot be run: EVAL(SHA)?: NOPERM .*allow the user EVALSHA`)
			requireClean(t, c.masters...)
		})
	}
}
