package pipeline

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
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
func (h *harness) meet() (Stats, Identity) { return h.meetAt("other:6379") }

func (h *harness) meetAt(endpoint string) (Stats, Identity) {
	node := h.newNode(endpoint)
	defer node.Close()
	pass(time.Millisecond)
	identity, _ := node.Identity()
	return node.Stats(), identity
}

const mastersReplication = "# Replication\nrole:master\nconnected_slaves:0\nmaster_replid:5ca1ab1e\nmaster_repl_offset:0\n"

func TestProductVersionAndRunIDAreReported(t *testing.T) {
	for _, c := range []struct{ server, want, runID string }{
		{"redis_version:7.0.15\nredis_mode:standalone\nrun_id:a\n", "redis 7.0.15", "a"},
		{"redis_version:7.2.4\nserver_name:valkey\nvalkey_version:9.1.2\nserver_mode:standalone\nrun_id:a\n", "valkey 9.1.2", "a"},
		{"redis_version:7.2.4\nredict_version:7.3.1\nredict_mode:standalone\nrun_id:a\n", "redict 7.3.1", "a"},
		{"garnet_version:1.0.48\nredis_mode:standalone\nrun_id:a\n", "garnet 1.0.48", "a"},
		{"redis_version:7.2.4\nserver_name:SomethingElse\nrun_id:a\n", "somethingelse 7.2.4", "a"},
		{"valkey_version:9.1.2\nredis_version:8.0.0\nserver_name:SomethingElse\nrun_id:a\n", "somethingelse 8.0.0", "a"},
		{"redis_version:7\xff\x1b]0;x\a\u202e\n", `redis 7\xff\x1b]0;x\a\u202e`, ""}, // a label of metrics must be UTF-8
		{"run_id:a\n", " ", "a"},
		// Its master_replid stands in for the run id. In other products, a master_replid outlives
		// the process, so it does not reveal a restart.
		{"redis_version:7.4.0\ndragonfly_version:df-v1.27.1\nredis_mode:standalone\n", "dragonfly df-v1.27.1", "5ca1ab1e"},
		{"redis_version:7.0.15\n", "redis 7.0.15", ""},
	} {
		inBubble(t, func(h *harness) {
			h.tellInfo(map[string]string{"server": "# Server\n" + c.server, "replication": mastersReplication})
			stats, identity := h.meet()
			require.Equal(t, Up, stats.State, "%v", stats.Err)
			assert.Equal(t, c.want, stats.Product+" "+stats.Version)
			assert.Equal(t, c.want, identity.Product+" "+identity.Version)
			assert.Equal(t, c.runID, identity.RunID)
		})
	}
	inBubble(t, func(h *harness) {
		h.server.RefuseWith(noPermission, "INFO")
		stats, identity := h.meet()
		require.Equal(t, Up, stats.State, "the node does without what an ACL forbids")
		assert.Empty(t, identity.Product+identity.RunID)
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
				h.server.RefuseWith(noCommand, "SCRIPT", "EVALSHA", "EVAL") // which is not what matters
				h.tellInfo(map[string]string{"server": c.server, "replication": c.replication, "cluster": c.cluster})
				stats, _ := h.meet()
				require.Equal(t, Down, stats.State)
				require.ErrorIs(t, stats.Err, c.reason)
				require.ErrorIs(t, stats.Err, ErrRefused)
				require.NotErrorIs(t, stats.Err, ErrNoScripts)
				assert.ErrorContains(t, stats.Err, c.says)
				assert.NotContains(t, stats.Err.Error(), "\n", "one reason is enough")
			})
		})
	}
}

// What a server evicts, it forgets without a sign.
func TestServerThatMayEvictLocksIsRefused(t *testing.T) {
	for memory, says := range map[string]string{
		"maxmemory:6000000\nmaxmemory_policy:volatile-ttl\n": "it may evict locks: its maxmemory-policy is volatile-ttl, not noeviction",
		"maxmemory:1\nmaxmemory_policy:allkeys-lru\n":        "its maxmemory-policy is allkeys-lru",
		"maxmemory:6000000\nmaxmemory_policy:noeviction\n":   "",
		"maxmemory:0\nmaxmemory_policy:volatile-lru\n":       "", // it has no limit
		"used_memory:1\n": "",
	} {
		inBubble(t, func(h *harness) {
			h.tellInfo(map[string]string{"replication": mastersReplication, "memory": memory})
			stats, _ := h.meet()
			if says == "" {
				require.Equal(t, Up, stats.State, memory)
				return
			}
			require.ErrorIs(t, stats.Err, ErrEvicts)
			require.ErrorIs(t, stats.Err, ErrRefused)
			assert.ErrorContains(t, stats.Err, says)
		})
	}
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

// A wrong server, or one that does not let us in, is named. Errors about user and password are
// recognized, whatever the wording of the version.
func TestWrongServersAndUsersAreNamedInTheError(t *testing.T) {
	for reply, c := range map[string]struct {
		says string
		auth bool
	}{
		"HTTP/1.1 400 Bad Request\r\n\r\n": {"not a Redis reply", false},
		"$99999999999999\r\n":              {"over the limit", false},
		"*1000000000000\r\n":               {"over the limit", false},
		"+OK\r\n+OK\r\n":                   {"protocol error", false},
		":17\r\n":                          {"AUTH was answered with int64", false},
		"+PONG\r\n":                        {"AUTH was answered with string", false},
		"-WRONGPASS invalid username-password pair or user is disabled.\r\n":                              {"WRONGPASS", true},
		"-NOAUTH Authentication required.\r\n":                                                            {"NOAUTH", true},
		"-ERR invalid password\r\n":                                                                       {"invalid password", true},
		"-ERR Client sent AUTH, but no password is set\r\n":                                               {"no password is set", true},
		"-ERR AUTH <password> called without any password configured for the default user.\r\n":           {"without any password", true},
		"-ERR unknown command `AUTH`, with args beginning with: `hunter2`\r\n":                            {"not shown", true},
		"-ERR wrong number of arguments for 'auth' command\r\n":                                           {"wrong number", true},
		"-ERR max number of clients reached\r\n":                                                          {"max number of clients", false},
		"-LOADING Redis is loading the dataset in memory\r\n":                                             {"LOADING", false},
		"-BUSY Redis is busy running a script.\r\n":                                                       {"BUSY", false},
		"-DENIED Redis is running in protected mode because no password is set for the default user.\r\n": {"DENIED", false},
	} {
		inBubble(t, func(h *harness) {
			h.server.ReplyRaw(func([]string) []byte { return []byte(reply) })
			stats, _ := h.meetAt("redis://me:hunter2@fake:6379")
			require.ErrorContains(t, stats.Err, c.says)
			assert.Equal(t, c.auth, errors.Is(stats.Err, ErrAuth), "%v", stats.Err)
			assert.NotErrorIs(t, stats.Err, ErrRefused)
		})
	}
}

func TestCredentialsAreAskedForAtEveryConnect(t *testing.T) {
	asked := 0
	vault := errors.New("vault is sealed")
	inBubbleOn(t, acceptPassword, func(h *harness) {
		for i := range 3 {
			h.up()
			said := h.commandsOf("AUTH")
			assert.Equal(t, []string{"AUTH", "me", fmt.Sprint("secret", i+1)}, said[len(said)-1].Args)
			h.server.CutAfterWrite(1)
			require.Error(t, h.command("PING").wait().err)
		}
		h.command("PING").fails(Unsent, vault)
	}, WithCredentials(func(_ context.Context, endpoint string) (string, string, error) {
		if asked++; endpoint != "redis://fake:6379" || asked > 3 {
			return "", "", vault
		}
		return "me", fmt.Sprint("secret", asked), nil
	}))
}

func TestPasswordIsInNoError(t *testing.T) {
	for _, replies := range []map[string]string{
		{"AUTH": "-ERR unknown command `AUTH`, with args beginning with: `hunter2`\r\n"},
		{"AUTH": "-WRONGPASS invalid username-password pair or user is disabled.\r\n"},
		{"AUTH": "*2\r\n$4\r\nAUTH\r\n$7\r\nhunter2\r\n"},
		{"AUTH": "AUTH hunter2\r\n"},
		{"AUTH": "+OK\r\n", "CLIENT": "-ERR hunter2\r\n", "SUBSCRIBE": "-ERR hunter2\r\n"},
		{"AUTH": "+OK\r\n", "INFO": "AUTH hunter2\r\n", "SUBSCRIBE": confirmation + "AUTH hunter2\r\n"},
		{"AUTH": "+OK\r\n", "SUBSCRIBE": confirmation + "-ERR hunter2\r\n"},
		{"AUTH": "+OK\r\n", "SUBSCRIBE": confirmation + "*2\r\n$4\r\nAUTH\r\n$7\r\nhunter2\r\n"},
		{"AUTH": "+OK\r\n", "SUBSCRIBE": confirmation + "*3\r\n$7\r\nmessage\r\n$7\r\nhunter2\r\n$7\r\nhunter2\r\n"},
	} {
		inBubble(t, func(h *harness) {
			h.server.ReplyRaw(func(cmd []string) []byte {
				if reply, ok := replies[cmd[0]]; ok {
					return []byte(reply)
				}
				return nil
			})
			for _, rest := range []string{"", strings.Repeat("x", 200)} { // Redis repeats its start
				node := h.newNode("redis://:hunter2" + rest + "@fake:6379")
				defer node.Close()
				e := new(recorder)
				node.Subscribe(testChannel, e)
				pass(20 * time.Second)
				stats := node.Stats()
				assert.Equal(t, replies["AUTH"] == "+OK\r\n" && replies["INFO"] == "", stats.Err == nil, "%v", replies)
				assert.NotContains(t, fmt.Sprint(stats.Endpoint, stats.Err), "hunter2")
				_, errs := e.take()
				require.NotEmpty(t, errs, replies)
				assert.NotContains(t, fmt.Sprint(errs), "hunter2")
			}
		})
	}
}

// after returns the error of a node some time after it began to dial, each time with dial.
func after(t *testing.T, d time.Duration, endpoint string, dial func(ctx context.Context) (net.Conn, error)) error {
	t.Helper()
	var err error
	synctest.Test(t, func(t *testing.T) {
		node, bad := NewNode(endpoint, WithDialer(func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }))
		require.NoError(t, bad)
		pass(d)
		err = node.Stats().Err
		require.NoError(t, node.Close())
	})
	return err
}

// farewell is a server that says one thing and hangs up.
type farewell struct {
	readOnly
}

func (farewell) Write(p []byte) (int, error) { return len(p), nil }

func TestLastWordsOfAServerThatHangsUpAreReported(t *testing.T) {
	for _, endpoint := range []string{"redis://fake:1/2", "redis://:password@fake:1", "redis://fake:1"} {
		for _, words := range []string{"DENIED Redis is running in protected mode", "ERR max number of clients reached"} {
			err := after(t, time.Millisecond, endpoint, func(context.Context) (net.Conn, error) {
				return farewell{readOnly{Reader: strings.NewReader("-" + words + "\r\n")}}, nil
			})
			assert.ErrorContains(t, err, words, endpoint)
		}
	}
}

// A dialer that does TLS itself makes rediss:// TLS twice: Redis takes it for a broken command, or
// waits for the end of its line. A server with TLS ends a connection that begins without, and says
// nothing.
func TestTLSThatOnlyOneSideBeginsIsNamed(t *testing.T) {
	const twice = "rediss:// is for servers with TLS; with a dialer that begins TLS itself"
	const hint = "it has answered nothing: redis:// is for servers without TLS"
	for _, c := range []struct {
		endpoint, answer string
		hangsUp          bool
		want             string
	}{
		{"rediss://fake:6379", "-ERR Protocol error\r\n", false, "TLS: something else answered: " + twice},
		{"rediss://fake:6379", "", false, "connected, but no TLS within 1s: " + twice},
		{"redis://fake:6379", "", true, hint},
		{"redis://fake:6379", "-ERR max number of clients reached\r\n", true, "connection closed by the server"},
	} {
		err := after(t, 1500*time.Millisecond, c.endpoint, func(context.Context) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				_, _ = server.Read(make([]byte, 1<<16)) //nolint:errcheck // TLS, or the commands of the handshake
				_, _ = io.WriteString(server, c.answer) //nolint:errcheck // the client may give up
				if c.hangsUp {
					_ = server.Close()
				}
				_, _ = io.Copy(io.Discard, server) //nolint:errcheck // until the client has given up
			}()
			return client, nil
		})
		assert.ErrorContains(t, err, c.want)
		assert.Equal(t, strings.Contains(c.want, hint), strings.Contains(err.Error(), hint), err)
	}
	// A dialer that does TLS, at a server that does not, waits for as long as it may.
	err := after(t, 1500*time.Millisecond, "redis://fake:6379", func(ctx context.Context) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	require.ErrorContains(t, err, "not connected within 1s: context deadline exceeded (a dialer that begins TLS waits")
	require.NotErrorIs(t, err, context.DeadlineExceeded)
}

// Closing TLS writes a farewell, which blocks for seconds if the peer takes nothing. Nobody else
// may wait for it.
func TestGivingUpATLSConnectionBlocksNobody(t *testing.T) {
	other := httptest.NewTLSServer(nil) // it has a certificate
	other.Close()
	inBubble(t, func(h *harness) {
		require.NoError(t, h.node.Close())
		var peer net.Conn
		dials := 0
		dial := func(ctx context.Context, _, _ string) (client net.Conn, err error) {
			if dials++; dials > 1 {
				return nil, io.ErrUnexpectedEOF
			}
			client, peer = net.Pipe() // a write blocks until the peer reads
			server, err := h.server.Dial(ctx)
			go func() {
				s, buf := tls.Server(peer, other.TLS), make([]byte, 16<<10)
				n, err := s.Read(buf) // the handshake's commands, in one write
				assert.NoError(t, err)
				_, err = server.Write(buf[:n])
				assert.NoError(t, err)
				go io.Copy(s, server) //nolint:errcheck // until one of the two is closed
				_, err = s.Read(buf)  // one more command, and then nothing
				assert.NoError(t, err)
			}()
			return client, err
		}
		h.node = h.newNode("rediss://fake:6379", WithDialer(dial), WithStallTimeout(testDeadline),
			WithTLSConfig(&tls.Config{InsecureSkipVerify: true, DynamicRecordSizingDisabled: true})) // the certificate is this test's own
		synctest.Wait()
		require.Equal(t, Up, h.node.Stats().State, "%v", h.node.Stats().Err)
		h.command("PING").fails(Unknown, ErrTimeout)
		pass(2 * testDeadline)
		assert.Greater(t, dials, 1, "it dials again at once")
		require.NoError(t, peer.Close())
	})
}
