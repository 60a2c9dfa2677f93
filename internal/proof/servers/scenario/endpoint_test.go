package scenario_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

const password = "p@ss/w:rd#1"

// gateway is a server that listens in every way, for all kinds of users.
type gateway struct {
	*redistest.Server
	tls string // the address of its TLS port; "" if it was built without TLS
	ca  string // the file that clients trust
}

func startGateway(t *testing.T) *gateway {
	t.Helper()
	g := &gateway{Server: redistest.StartOne(t, redistest.WithPassword(password), redistest.WithUnixSocket())}
	do(t, g.Server, "ACL", "SETUSER", "admin", "on", ">secret", "~*", "&*", "+@all")
	// No more rights than a lock needs: no CLIENT, INFO, PING or SCRIPT, and no keys but its own.
	do(t, g.Server, "ACL", "SETUSER", "poor", "on", ">secret", "~Test*", "+set", "+get", "+del", "+pexpire", "+eval", "+evalsha", "+select")
	known, err := redis.Strings(g.Do("CONFIG", "GET", "tls-port"))
	require.NoError(t, err)
	if len(known) > 0 {
		g.listenTLS(t)
	}
	return g
}

// listenTLS makes the server listen on a TLS port too.
func (g *gateway) listenTLS(t *testing.T) {
	t.Helper()
	authority, dir := redistest.NewAuthority(t), t.TempDir()
	cert, key := filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key")
	authority.Issue(time.Hour, cert, key)
	g.tls, g.ca = redistest.FreeAddr(t), authority.File
	_, port, err := net.SplitHostPort(g.tls)
	require.NoError(t, err)
	do(t, g.Server, "CONFIG", "SET", "tls-cert-file", cert, "tls-key-file", key, "tls-ca-cert-file", g.ca, "tls-auth-clients", "no")
	do(t, g.Server, "CONFIG", "SET", "tls-port", port)
}

// One master is a lock of a single instance, however it is reached. Its key is in the database of
// the endpoint, and a waiter is woken over the same kind of connection.
func TestOneMasterIsALockHoweverItIsReached(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	inURL := []redlock.Option{trusting}
	apart := []redlock.Option{trusting, redlock.WithPool(pool.WithCredentials(func(context.Context, string) (username, secret string, err error) {
		return "", password, nil
	}))}
	for name, way := range map[string]struct {
		endpoint string
		database int
		unwoken  bool
		opts     []redlock.Option
	}{
		"URL with password":           {g.URL(), 0, false, inURL},
		"host:port, credentials":      {g.Addr(), 0, false, apart},
		"database":                    {"redis://" + g.Addr() + "/2", 2, false, apart},
		"default user and database":   {as(t, g.Server, url.UserPassword("default", password), "/5"), 5, false, inURL},
		"another user":                {as(t, g.Server, url.UserPassword("admin", "secret"), "/6"), 6, false, inURL},
		"user with the fewest rights": {as(t, g.Server, url.UserPassword("poor", "secret"), "/7"), 7, true, inURL},
		"unix socket":                 {"unix://" + g.Socket(), 0, false, apart},
		"unix socket and database":    {"unix://" + g.Socket() + "?db=3", 3, false, apart},
		"TLS":                         {"rediss://" + url.UserPassword("", password).String() + "@" + g.tls + "/4?cacert=" + g.ca, 4, false, inURL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "TLS" && g.tls == "" {
				t.Skip("this redis-server was built without TLS")
			}
			holder := connected(t, []string{way.endpoint}, way.opts...)
			waiter := connected(t, []string{way.endpoint}, append(slices.Clone(way.opts), redlock.WithRetry(aMinute, aMinute))...)
			if way.unwoken {
				waiter = holder
			}
			lock := take(t, holder, cluster.LockName(t))
			_, err := waiter.TryLock(t.Context(), lock.Name())
			require.ErrorIs(t, err, redlock.ErrTaken)
			require.NoError(t, lock.Extend(t.Context(), longTTL))
			require.NoError(t, lock.Verify(t.Context()))
			assert.Equal(t, lock.Value(), valueIn(t, g.Server, way.database, lock.Name()))
			got := waiting(t, waiter, lock.Name())
			if !way.unwoken {
				await(t, "it has a place on the list", func() bool {
					status, err := admin.Of(waiter).Inspect(t.Context(), lock.Name())
					return err == nil && status.Nodes[0].Waiting == 1
				})
			}
			give(t, lock)
			give(t, <-got)
			assert.Equal(t, way.unwoken, waiter.Stats().Woken == 0)
			assert.Empty(t, valueIn(t, g.Server, way.database, lock.Name()))
		})
	}
}

// Channels belong to a server, keys to a database: locks of the same name in two databases have
// nothing to do with each other.
func TestWaitersInTwoDatabasesOfOneServerAreApart(t *testing.T) {
	t.Parallel()
	server := redistest.StartOne(t)
	var locks []*redlock.Lock
	var waiters []*redlock.Locker
	var gots []<-chan *redlock.Lock
	for _, database := range []string{"/1", "/0"} {
		l := connected(t, []string{server.URL() + database}, redlock.WithRetry(aMinute, aMinute))
		lock := take(t, l, cluster.LockName(t))
		gots, locks, waiters = append(gots, waiting(t, l, lock.Name())), append(locks, lock), append(waiters, l)
		await(t, "it has a place on the list", func() bool {
			status, err := admin.Of(l).Inspect(t.Context(), lock.Name())
			return err == nil && status.Nodes[0].Waiting == 1
		})
	}
	give(t, locks[1])
	give(t, <-gots[1])
	assert.Zero(t, waiters[0].Stats().Woken)
	assert.Empty(t, gots[0])
	require.NoError(t, locks[0].Verify(t.Context()))
	give(t, locks[0])
	give(t, <-gots[0])
	assert.Equal(t, uint64(1), waiters[0].Stats().Woken)
}

// Masters are reached by addresses, and their certificates have names. What the list of a client
// lacks, it learns from the members; who has no names there is in the same cluster.
func TestMastersWhoseCertificatesHaveOtherNamesThanTheirHosts(t *testing.T) {
	t.Parallel()
	authority := redistest.NewAuthority(t)
	var endpoints, named []string
	for _, name := range []string{"a.redis.example", "b.redis.example", "c.redis.example"} {
		authority.Names = []string{name}
		server, addr := authority.StartTLS(time.Hour, redistest.WithArgs("--tls-auth-clients", "no"))
		t.Cleanup(func() { assert.NoError(t, server.Clear()) })
		endpoints = append(endpoints, "rediss://"+addr)
		named = append(named, "rediss://"+addr+"?servername="+name)
	}
	files := redlock.WithPool(pool.WithTLSFiles(pool.TLSFiles{CA: authority.File}))
	first := connected(t, named, files)
	lock := take(t, first, cluster.LockName(t))
	m, err := admin.Of(first).Cluster().Members(t.Context())
	require.NoError(t, err)
	for _, one := range m.Members {
		i := slices.Index(endpoints, one.Endpoint)
		require.GreaterOrEqual(t, i, 0, one.Endpoint)
		assert.Equal(t, named[i], one.Endpoint+"?servername="+one.ServerName)
	}

	unverified := redlock.WithPool(pool.WithTLSConfig(&tls.Config{InsecureSkipVerify: true}))
	for _, l := range []*redlock.Locker{connected(t, named[:2], files), connected(t, endpoints, unverified)} {
		await(t, "it knows and reaches all three", func() bool {
			nodes := l.Stats().Nodes
			return len(nodes) == 3 && !slices.ContainsFunc(nodes, func(n redlock.NodeStats) bool { return n.State != pool.Up || n.Barred != nil })
		})
		_, err := l.TryLock(t.Context(), lock.Name())
		require.ErrorIs(t, err, redlock.ErrTaken)
	}
	give(t, lock)

	strict := cluster.NewLocker(t, endpoints, files)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	assert.ErrorContains(t, strict.Ready(ctx), "certificate")
}
