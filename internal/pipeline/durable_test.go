package pipeline

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/fakeredis"
)

// makeDurable gives a server the settings with which a restart loses nothing.
func makeDurable(server *fakeredis.Node) {
	for parameter, value := range map[string]string{
		"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "no", "aof-load-truncated": "no",
	} {
		server.SetConfig(parameter, value)
	}
}

// A server is durable only if a restart loads all that it has answered, and only if that is seen.
func TestAServerIsDurableIfARestartLoadsAllThatItAnswered(t *testing.T) {
	info := func(product string) func(h *harness) {
		return func(h *harness) {
			h.tellInfo(map[string]string{"server": product + "run_id:a\n", "replication": mastersReplication})
		}
	}
	set := func(parameter, value string) func(h *harness) {
		return func(h *harness) { h.server.SetConfig(parameter, value) }
	}
	limit := func(h *harness) { h.server.LimitDefaultUser(true) }
	deny := func(command string) func(h *harness) {
		return func(h *harness) { h.server.RefuseWith(noPermission, command) }
	}
	const no = "This user has no permissions to run the 'set' command"
	for name, c := range map[string]struct {
		change         []func(h *harness)
		durable, tells bool
		unloaded       string
		unknown        bool
	}{
		"all of it":                     {durable: true, tells: true},
		"snapshots":                     {[]func(h *harness){set("appendonly", "no")}, false, true, "", false},
		"every second":                  {[]func(h *harness){set("appendfsync", "everysec")}, false, true, "", false},
		"not during a rewrite":          {[]func(h *harness){set("no-appendfsync-on-rewrite", "yes")}, false, true, "", false},
		"a log without its end":         {[]func(h *harness){set("aof-load-truncated", "yes")}, false, true, "", false},
		"a default user without rights": {[]func(h *harness){limit}, false, true, no, false},
		"no right to ask for them":      {[]func(h *harness){deny("ACL")}, false, false, "", true},
		"nor for the settings":          {[]func(h *harness){deny("ACL"), deny("CONFIG")}, false, false, "", true},
		"snapshots, and no such right":  {[]func(h *harness){deny("ACL"), set("appendonly", "no")}, false, true, "", true},
		"a Valkey that loads all":       {[]func(h *harness){limit, info("valkey_version:9.1.2\n")}, true, true, "", false},
		"the same, and no such right":   {[]func(h *harness){deny("ACL"), info("valkey_version:9.1.2\n")}, true, true, "", false},
		"a Valkey that does not":        {[]func(h *harness){limit, info("valkey_version:9.1.1\n")}, false, true, no, false},
		"a Redis without users":         {[]func(h *harness){deny("ACL"), info("redis_version:5.0.14\n")}, true, true, "", false},
		"a Redis without DRYRUN":        {[]func(h *harness){deny("ACL"), info("redis_version:6.2.14\n")}, false, false, "", true},
		"a server of no known product":  {[]func(h *harness){deny("ACL"), info("redis_version:5.0.14\nserver_name:Else\n")}, false, false, "", true},
	} {
		inBubble(t, func(h *harness) {
			makeDurable(h.server)
			for _, change := range c.change {
				change(h)
			}
			stats, id := h.meet()
			require.Equal(t, Up, stats.State, "%s: %v", name, stats.Err)
			assert.Equal(t, c.durable, id.Durable, name)
			assert.Equal(t, c.tells, id.TellsDurable, name)
			assert.Equal(t, c.unloaded, id.Unloaded, name)
			assert.Equal(t, c.unknown, id.UnknownLoading, name)
		})
	}
}

// One right that the default user lacks is enough: what scripts wrote with it is skipped.
func TestADefaultUserNeedsEveryRightOfALoad(t *testing.T) {
	for _, name := range []string{"SET", "DEL", "UNLINK", "PEXPIRE", "PEXPIREAT", "ZADD", "ZREM", "ZPOPMIN", "ZREMRANGEBYSCORE", "SELECT"} {
		inBubble(t, func(h *harness) {
			makeDurable(h.server)
			words := "User default has no permissions to run the command " + name
			h.server.ReplyRaw(func(cmd []string) []byte {
				if cmd[0] == "ACL" && cmd[3] == name {
					return fmt.Appendf(nil, "$%d\r\n%s\r\n", len(words), words)
				}
				return nil
			})
			_, id := h.meet()
			assert.False(t, id.Durable)
			assert.Equal(t, words, id.Unloaded)
		})
	}
}

func TestVersionsAreComparedByNumbers(t *testing.T) {
	for version, older := range map[string]bool{
		"9.1.2": false, "9.1.10": false, "9.2": false, "10.0.0": false, "9.1.1": true, "9.1": true, "8.1.9": true, "9.1.2-rc1": false, "9.x.9": true,
	} {
		assert.Equal(t, older, olderThan(version, 9, 1, 2), version)
	}
}
