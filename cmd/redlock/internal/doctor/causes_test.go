package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/internal/trouble"
)

func TestOneNameOfSeveralAddressesIsNamed(t *testing.T) {
	f, r := facts{addresses: []string{"10.0.0.1", "10.0.0.2"}}, &findings{}
	f.checkSeveral(r)
	assert.Equal(t, trouble.Addresses, r.all[0].Kind)
	assert.Equal(t, "its name has 2 addresses: 10.0.0.1, 10.0.0.2", r.all[0].What)
	assert.Empty(t, addressesOf(t.Context(), "redis://localhost:6379"), "one of each kind")
	assert.Empty(t, addressesOf(t.Context(), "unix:///run/redis.sock"))
}

func TestPersistenceThatChangedIsNamed(t *testing.T) {
	t.Parallel()
	servers, urls := startMet(t, 3, redistest.WithArgs("--appendonly", "yes", "--appendfsync", "everysec", "--aof-load-truncated", "no"))
	for _, server := range servers[:2] { // which also writes what everysec puts off while the disk is busy
		_, err := server.Do("CONFIG", "SET", "appendfsync", "always")
		require.NoError(t, err)
	}
	require.NoError(t, servers[0].Restart())
	_, d, text := consult(t, urls)
	at := slices.Index(checksOf(d.Nodes[0].Findings), "quarantine")
	require.GreaterOrEqual(t, at, 0, text)
	assert.Contains(t, d.Nodes[0].Findings[at].What, "ago, with appendfsync everysec: it may have lost the last second")
	requireFinding(t, &d, text, 1, trouble.Note, "persistence", nil, "a restart forgets nothing now, and did when its memory began")
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
		requireFinding(t, &d, text, 0, trouble.Warning, "loading", nil, "a restart loads only a part of its log: ", "has no permissions to ")
		for _, cure := range d.Nodes[0].Findings[0].Commands {
			words := strings.Fields(cure)
			_, err := servers[0].Do(words[0], redis.Args{}.AddFlat(words[1:])...)
			require.NoError(t, err, cure)
		}
		_, d, text = consult(t, urls)
		requireFinding(t, &d, text, 0, trouble.Note, "persistence", nil, "a restart forgets nothing now, and did when its memory began")
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
