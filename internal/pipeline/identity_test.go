package pipeline

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tellInfo makes the server answer INFO with these texts, by section. The server does not know a
// section that is missing: it answers with an empty text, as Redis does.
func (h *harness) tellInfo(sections map[string]string) {
	h.server.ReplyRaw(func(cmd []string) []byte {
		if cmd[0] != "INFO" {
			return nil
		}
		text := strings.ReplaceAll(sections[cmd[1]], "\n", "\r\n")
		return fmt.Appendf(nil, "$%d\r\n%s\r\n", len(text), text)
	})
}

// meet returns what a new node finds out about the server.
func (h *harness) meet() (Stats, Identity) {
	node := h.newNode("other:6379")
	defer node.Close()
	time.Sleep(time.Millisecond)
	synctest.Wait()
	identity, _ := node.Identity()
	return node.Stats(), identity
}

const mastersReplication = "# Replication\nrole:master\nconnected_slaves:0\nmaster_replid:5ca1ab1e\nmaster_repl_offset:0\n"

func TestProductAndItsVersionAreReported(t *testing.T) {
	for want, server := range map[string]string{
		"redis 7.0.15":         "# Server\nredis_version:7.0.15\nredis_mode:standalone\nrun_id:a\n",
		"valkey 9.1.2":         "# Server\nredis_version:7.2.4\nserver_name:valkey\nvalkey_version:9.1.2\nserver_mode:standalone\nrun_id:a\n",
		"redict 7.3.1":         "# Server\nredis_version:7.2.4\nredict_version:7.3.1\nredict_mode:standalone\nrun_id:a\n",
		"dragonfly df-v1.27.1": "# Server\nredis_version:7.4.0\ndragonfly_version:df-v1.27.1\nredis_mode:standalone\n",
		"garnet 1.0.48":        "# Server\ngarnet_version:1.0.48\nredis_mode:standalone\nrun_id:a\n",
		"somethingelse 7.2.4":  "# Server\nredis_version:7.2.4\nserver_name:SomethingElse\nrun_id:a\n",
		"somethingelse 8.0.0":  "# Server\nvalkey_version:9.1.2\nredis_version:8.0.0\nserver_name:SomethingElse\nrun_id:a\n",
		" ":                    "# Server\nrun_id:a\n",
	} {
		inBubble(t, func(h *harness) {
			h.tellInfo(map[string]string{"server": server, "replication": mastersReplication})
			stats, identity := h.meet()
			require.Equal(t, Up, stats.State, "%v", stats.Err)
			assert.Equal(t, want, stats.Product+" "+stats.Version)
			assert.Equal(t, want, identity.Product+" "+identity.Version)
			if identity.Product == "dragonfly" {
				assert.Equal(t, "5ca1ab1e", identity.RunID, "its master_replid stands in for it")
			} else {
				assert.Equal(t, "a", identity.RunID)
			}
		})
	}
}

// In other products, a master_replid outlives the process, so it does not reveal a restart.
func TestReplicationIDStandsInForTheRunIDOfDragonflyOnly(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.tellInfo(map[string]string{"server": "# Server\nredis_version:7.0.15\n", "replication": mastersReplication})
		stats, identity := h.meet()
		require.Equal(t, Up, stats.State)
		assert.Empty(t, identity.RunID)
	})
}

func TestServerThatIsNotAMasterOfItsOwnIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		server, replication, cluster string
		reason                       error
		says                         string
	}{
		"replica":                 {"", "role:slave\nmaster_host:a\nmaster_port:1\n", "", ErrReplica, "a replica of a:1, not a master"},
		"replica by another name": {"", "role:replica\nmaster_host:a\nmaster_port:1\n", "", ErrReplica, "a replica of a:1, not a master"},
		"active replica of KeyDB": {"", "role:active-replica\nmaster_host:a\nmaster_port:1\n", "", ErrReplica, "a replica of a:1, not a master"},
		"role that nobody knows":  {"", "role:witness\n", "", ErrReplica, `its role is "witness", not master`},
		"cluster member, Redis":   {"redis_mode:cluster\n", mastersReplication, "", ErrClusterMode, "in cluster mode, not a master of its own"},
		"cluster member, Valkey":  {"server_mode:cluster\n", mastersReplication, "", ErrClusterMode, "in cluster mode, not a master of its own"},
		"cluster member, Redict":  {"redict_mode:cluster\n", mastersReplication, "", ErrClusterMode, "in cluster mode, not a master of its own"},
		"cluster member, other":   {"run_id:a\n", mastersReplication, "# Cluster\ncluster_enabled:1\n", ErrClusterMode, "in cluster mode"},
		"cluster member, replica": {"redis_mode:cluster\n", "role:slave\nmaster_host:a\nmaster_port:1\n", "cluster_enabled:1\n", ErrClusterMode, "in cluster mode"},
		"Sentinel, Redis":         {"redis_mode:sentinel\n", "", "", ErrSentinelMode, "in sentinel mode, not a master of its own"},
		"Sentinel, Valkey":        {"server_mode:sentinel\n", "", "", ErrSentinelMode, "in sentinel mode, not a master of its own"},
		"Sentinel, Redict":        {"redict_mode:sentinel\n", "", "", ErrSentinelMode, "in sentinel mode, not a master of its own"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(h *harness) {
				h.tellInfo(map[string]string{"server": c.server, "replication": c.replication, "cluster": c.cluster})
				stats, _ := h.meet()
				require.Equal(t, Down, stats.State)
				require.ErrorIs(t, stats.Err, c.reason)
				require.ErrorIs(t, stats.Err, ErrRefused)
				assert.ErrorContains(t, stats.Err, c.says)
				assert.NotContains(t, stats.Err.Error(), "\n", "one reason is enough")
			})
		})
	}
}

func TestNodeDoesWithoutWhatAnACLForbids(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.server.RefuseWith("NOPERM this user has no permissions to run the 'info' command", "INFO")
		stats, identity := h.meet()
		require.Equal(t, Up, stats.State)
		assert.Empty(t, identity.Product)
		assert.Empty(t, identity.RunID)
	})
}

// An uptime is the difference of two moments, each cut to seconds, so it may be almost a second too
// long. A server that seems older than it is would vote too early.
func TestUptimeIsRoundedAgainstTheServer(t *testing.T) {
	for uptime, age := range map[string]time.Duration{
		"3600": 3599 * time.Second, "2": time.Second, "1": 0, "0": 0, "-3600": 0, "soon": 0,
	} {
		inBubble(t, func(h *harness) {
			h.tellInfo(map[string]string{
				"server":      "redis_version:7.0.15\nrun_id:a\nuptime_in_seconds:" + uptime + "\n",
				"replication": mastersReplication,
			})
			_, identity := h.meet()
			assert.Equal(t, identity.Connected.Add(-age), identity.Started, "after %s s", uptime)
		})
	}
}
