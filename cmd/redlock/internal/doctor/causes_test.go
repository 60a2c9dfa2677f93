package doctor

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

func TestCertificatesAreNamed(t *testing.T) {
	t.Parallel()
	authority, dir := redistest.NewAuthority(t), t.TempDir()
	cert, key := filepath.Join(dir, "client.pem"), filepath.Join(dir, "client.key")
	authority.Issue(time.Hour, cert, key)
	server, addr := authority.StartTLS(10*24*time.Hour+time.Minute, durable)
	clitest.Admit(t, server.URL())
	url := "rediss://" + addr + "?cacert=" + authority.File
	_, d, text := consult(t, []string{url})
	requireFinding(t, &d, text, 0, severe, "certificate", nil, "it wants another client certificate than ours, or any")
	assert.Contains(t, d.Nodes[0].Findings[0].Do, "--cert and --key")

	_, d, text = consult(t, []string{"rediss://" + addr}, "--cacert", authority.File, "--cert", cert, "--key", key)
	require.Equal(t, []string{"certificate", "certificate"}, checksOf(d.Nodes[0].Findings), text)
	assert.Contains(t, d.Nodes[0].Findings[0].What, "its certificate ends in 10 days, at 20")
	assert.Contains(t, d.Nodes[0].Findings[1].What, "our client certificate ends in 0 days")
	_, d, text = consult(t, []string{url + "&cert=" + cert + "&key=" + key})
	assert.Len(t, d.Nodes[0].Findings, 2, text)
	status, _, stderr := command([]string{server.URL()}, "--cert", cert, "--key", key)
	assert.NotZero(t, status)
	assert.Contains(t, stderr, "are for rediss:// endpoints")
}

// A balancer, or the name of a service, in place of masters: each client locks at another one.
func TestAnEndpointOfSeveralServersIsNamed(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 3, durable)
	balancer := func(servers []*redistest.Server) string {
		listener, err := redistest.Listen()
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, listener.Close()) })
		go func() {
			for i := 0; ; i++ {
				client, err := listener.Accept()
				if err != nil {
					return
				}
				server, err := net.Dial("tcp", servers[i%len(servers)].Addr())
				if err != nil {
					_ = client.Close()
					continue
				}
				go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
				go func() { _, _ = io.Copy(client, server); _ = client.Close() }()
			}
		}()
		return "redis://" + listener.Addr().String()
	}
	_, d, text := consult(t, []string{balancer(servers)})
	at := slices.Index(checksOf(d.Nodes[0].Findings), "several")
	require.GreaterOrEqual(t, at, 0, text)
	assert.Contains(t, d.Nodes[0].Findings[at].What, "several servers answer at this endpoint: 5 connections have reached ")
	assert.False(t, d.Safe)

	_, d, text = consult(t, []string{balancer(servers[:1])})
	assert.NotContains(t, checksOf(d.Nodes[0].Findings), "several", text)

	f := facts{addresses: []string{"10.0.0.1", "10.0.0.2"}}
	f.checkSeveral(func(s severity, check, _, _, what string, args ...any) {
		assert.Equal(t, warning, s)
		assert.Equal(t, "its name has 2 addresses: 10.0.0.1, 10.0.0.2", fmt.Sprintf(what, args...))
	})
	assert.Empty(t, addressesOf(t.Context(), "redis://localhost:6379"), "one of each kind")
	assert.Empty(t, addressesOf(t.Context(), "unix:///run/redis.sock"))
}

// What fills the masters may be keys of ours. What is proposed makes room.
func TestAMasterThatIsFullOfOurKeysIsNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ key, says string }{
		"semaphores": {"redquorum:permits:download/user-%d", "are ours, most of them redquorum:permits:… (numbers of permits of semaphores)"},
		"tokens":     {"redquorum:fence:%d", "most of them redquorum:fence:… (fencing counters)"},
		"waiters":    {"redquorum:waits:%d", "most of them redquorum:… (keys beside locks)"},
		"others":     {"cache:%d", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers, urls := startMet(t, 1, durable)
			const fill = "for i = 1, 2000 do redis.call('SET', string.format(ARGV[1], i), string.rep('x', 1000), 'PX', 3600000) end"
			_, err := servers[0].Do("EVAL", fill, 0, c.key)
			require.NoError(t, err)
			_, err = servers[0].Do("CONFIG", "SET", "maxmemory", "1mb")
			require.NoError(t, err)
			_, d, text := consult(t, urls)
			requireFinding(t, &d, text, 0, severe, "memory", nil, "its memory is full (OOM)", c.says)
			do := strings.Fields(strings.ReplaceAll(d.Nodes[0].Findings[0].Do, ",", " "))
			if c.says == "" {
				assert.Contains(t, d.Nodes[0].Findings[0].Do, "move other data elsewhere")
				return
			}
			require.Equal(t, []string{"CONFIG", "SET", "maxmemory"}, do[:3])
			_, err = servers[0].Do("CONFIG", "SET", "maxmemory", do[3])
			require.NoError(t, err)
			_, d, text = consult(t, urls)
			assert.Empty(t, d.Nodes[0].Findings, text)
		})
	}
}

func TestPersistenceThatChangedIsNamed(t *testing.T) {
	t.Parallel()
	servers, urls := startMet(t, 3, redistest.WithArgs("--appendonly", "yes", "--appendfsync", "everysec", "--aof-load-truncated", "no"))
	require.NoError(t, servers[0].Restart())
	_, err := servers[1].Do("CONFIG", "SET", "appendfsync", "always")
	require.NoError(t, err)
	_, d, text := consult(t, urls)
	at := slices.Index(checksOf(d.Nodes[0].Findings), "quarantine")
	require.GreaterOrEqual(t, at, 0, text)
	assert.Contains(t, d.Nodes[0].Findings[at].What, "ago, with appendfsync everysec: it may have lost the last second")
	requireFinding(t, &d, text, 1, note, "persistence", nil, "a restart forgets nothing now, and did when its memory began")
}

func TestMastersOnOneHostAreNamed(t *testing.T) {
	on := func(hosts ...string) (all []facts) {
		for _, host := range hosts {
			all = append(all, facts{endpoint: "redis://" + host + ":6379"})
		}
		return all
	}
	assert.Empty(t, checkHosts(on("a", "b", "c")))
	assert.Empty(t, checkHosts(on("a", "a", "b", "c", "d")), "two of five may fail")
	assert.Empty(t, checkHosts(on("127.0.0.1", "127.0.0.1", "127.0.0.1")), "a trial")
	assert.Contains(t, checkHosts(on("a", "a", "b"))[0].What, "2 masters are on the host a")
}

// What doctor says about a master that loads a part of its log is done as it stands there, and then
// there is nothing left to say. (Valkey from 9.1.2 on loads all.)
func TestDoctorCuresAMasterThatLoadsAPartOfItsLog(t *testing.T) {
	t.Parallel()
	for _, user := range []string{"off", "off +@all ~app:* &*", "on nopass -@all +ping", "on >password ~* &* +@all -zadd"} {
		file := redistest.WithUsers(t, "user default "+user+"\nuser all on >secret +@all ~* &*\n", "all", "secret")
		servers, urls := startMet(t, 1, durable, file)
		_, d, text := consult(t, urls)
		if loadsAll(&d.Nodes[0]) {
			assert.Empty(t, d.Nodes[0].Findings, user)
			continue
		}
		requireFinding(t, &d, text, 0, warning, "loading", nil, "a restart loads only a part of its log: ", "has no permissions to ")
		rights, save, _ := strings.Cut(strings.TrimSuffix(d.Nodes[0].Findings[0].Do, ", or the same in its configuration"), "; and then ")
		rights, _, _ = strings.Cut(rights, " (")
		for _, cure := range []string{rights, save} {
			words := strings.Fields(cure)
			_, err := servers[0].Do(words[0], redis.Args{}.AddFlat(words[1:])...)
			require.NoError(t, err, cure)
		}
		_, d, text = consult(t, urls)
		requireFinding(t, &d, text, 0, note, "persistence", nil, "a restart forgets nothing now, and did when its memory began")
		_, err := servers[0].Do("EVAL", "redis.call('SET', 'a', 1) redis.call('SET', 'b', 1)", 0)
		require.NoError(t, err)
		require.NoError(t, servers[0].Restart()) // with the users that were saved
		there, err := redis.Int(servers[0].Do("EXISTS", "a", "b"))
		require.NoError(t, err)
		assert.Equal(t, 2, there)
	}
}

// loadsAll reports whether a master asks nobody's rights when it loads its log.
func loadsAll(n *nodeDiagnosis) bool {
	return n.Product == "valkey" && strings.HasPrefix(n.Version, "9.")
}

// Who may not ask is told so where it matters, with the right that is missing.
func TestDoctorSaysThatItCannotSeeWhatARestartLoads(t *testing.T) {
	t.Parallel()
	for _, fsync := range []string{"always", "everysec"} {
		servers, _ := startMet(t, 1, durable, redistest.WithArgs("--appendfsync", fsync))
		m := &guarded{Server: servers[0], t: t}
		_, d, _ := consult(t, []string{m.userWith(append(documented(t, "locks"), "+scan", "-acl|dryrun")...)})
		node := d.Nodes[0]
		if loadsAll(&node) || fsync != "always" {
			assert.NotContains(t, checksOf(node.Findings), "permission")
			continue
		}
		at := slices.Index(checksOf(node.Findings), "permission")
		require.GreaterOrEqual(t, at, 0, "%+v", node.Findings)
		assert.Contains(t, node.Findings[at].What, "ACL DRYRUN is refused")
		assert.Contains(t, fmt.Sprint(d), "+acl|dryrun")
	}
}

// A log without its end is loaded as if nothing were missing, unless that is forbidden.
func TestDoctorCuresAMasterThatLoadsADamagedLog(t *testing.T) {
	t.Parallel()
	servers, urls := startMet(t, 1, durable, redistest.WithArgs("--aof-load-truncated", "yes"))
	_, d, text := consult(t, urls)
	requireFinding(t, &d, text, 0, note, "persistence", nil, "aof-load-truncated is yes")
	cure, _, _ := strings.Cut(d.Nodes[0].Findings[0].Do, ",")
	words := strings.Fields(cure)
	_, err := servers[0].Do(words[0], redis.Args{}.AddFlat(words[1:])...)
	require.NoError(t, err, cure)
	_, d, text = consult(t, urls)
	requireFinding(t, &d, text, 0, note, "persistence", nil, "a restart forgets nothing now, and did when its memory began")
}
