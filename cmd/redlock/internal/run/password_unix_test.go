//go:build unix

package run

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
)

// A password is changed as docs/operations.md says, and one holder still has the old one.
func TestAPasswordIsChangedWithoutAPauseAndWhoMissedItIsTold(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	tell := func(words ...any) {
		for _, m := range c.Masters {
			_, err := m.Do(words[0].(string), words[1:]...)
			require.NoError(t, err)
		}
	}
	as := func(password string) (urls []string) {
		for _, m := range c.Masters {
			urls = append(urls, strings.Replace(m.URL(), "redis://", "redis://app:"+password+"@", 1))
		}
		return urls
	}
	tell("ACL", "SETUSER", "app", "on", ">former", "~*", "&*", "+@all")
	late := hold(t, as("former"), "late", "--ttl 3s")
	tell("ACL", "SETUSER", "app", ">latter")
	late.Ask(t, "still on")
	early := hold(t, as("latter"), "early", "")
	tell("ACL", "SETUSER", "app", "<former")
	tell("CLIENT", "KILL", "USER", "app") // as a restart of a server or a network would
	status, stderr := late.End(t)
	assert.Equal(t, cli.ExitLost, status)
	assert.Contains(t, stderr, "; no vote from redis://")
	assert.Contains(t, stderr, "user or password is wrong: AUTH: WRONGPASS")
	assert.NotContains(t, stderr, "former")
	assert.Equal(t, "on and on", early.Ask(t, "on and on"))
	release(t, early)
}
