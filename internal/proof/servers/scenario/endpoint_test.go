package scenario_test

import (
	"net/url"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// worksWith asserts the whole life of a lock on one master, and that a database has its key while
// it is held.
func worksWith(t *testing.T, endpoint string, m cluster.Master, database int, opts ...redlock.Option) {
	t.Helper()
	l := cluster.NewLocker(t, []string{endpoint}, append([]redlock.Option{redlock.WithTTL(longTTL), redlock.WithNodeTimeout(patience)}, opts...)...)
	lock, err := l.TryLock(t.Context(), cluster.LockName(t))
	require.NoError(t, err)
	_, err = l.TryLock(t.Context(), cluster.LockName(t))
	require.ErrorIs(t, err, redlock.ErrTaken)
	require.NoError(t, lock.Extend(t.Context(), longTTL))
	require.NoError(t, lock.Verify(t.Context()))
	assert.Equal(t, lock.Value(), valueIn(t, m, database, lock.Name()))
	require.NoError(t, lock.Unlock(t.Context()))
	assert.Empty(t, valueIn(t, m, database, lock.Name()))
}

// valueIn reads a key of any database, with the credentials of the URL.
func valueIn(t *testing.T, m cluster.Master, database int, key string) string {
	t.Helper()
	u, err := url.Parse(m.URL())
	require.NoError(t, err)
	password, _ := u.User.Password()
	conn, err := redis.Dial("tcp", m.Addr(), redis.DialDatabase(database), redis.DialPassword(password))
	require.NoError(t, err)
	defer conn.Close()
	value, err := redis.String(conn.Do("GET", key))
	if err != nil {
		require.ErrorIs(t, err, redis.ErrNil)
	}
	return value
}

// as returns a master's URL with a user and a path.
func as(t *testing.T, m cluster.Master, user *url.Userinfo, path string) string {
	t.Helper()
	u, err := url.Parse(m.URL())
	require.NoError(t, err)
	u.User, u.Path = user, path
	return u.String()
}

func TestOneMasterIsALockOfASingleInstance(t *testing.T) {
	t.Parallel()
	cluster.OnEachKind(t, 1, func(t *testing.T, c *cluster.Cluster) {
		worksWith(t, c.Masters[0].URL(), c.Masters[0], 0)
		worksWith(t, c.Masters[0].Addr(), c.Masters[0], 0)
		must(t, c.Masters[0].Kill())
		l := cluster.NewLocker(t, c.URLs())
		_, err := l.TryLock(t.Context(), cluster.LockName(t))
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
	})
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	server := redistest.StartOne(t, redistest.WithUnixSocket())
	worksWith(t, "unix://"+server.Socket(), server, 0)
	worksWith(t, "unix://"+server.Socket()+"?db=3", server, 3)
}

func TestPasswordAndDatabaseInTheURL(t *testing.T) {
	t.Parallel()
	const password = "p@ss/w:rd#1" //nolint:gosec // of a server that ends with the test
	server := redistest.StartOne(t, redistest.WithPassword(password))
	worksWith(t, server.URL(), server, 0)
	worksWith(t, as(t, server, url.UserPassword("", password), "/5"), server, 5)
	worksWith(t, as(t, server, url.UserPassword("default", password), "/5"), server, 5)
}

// A user with no more rights than a lock needs: no CLIENT, INFO, PING or SCRIPT, and no keys but
// those of its names.
func TestUserWithTheFewestRights(t *testing.T) {
	t.Parallel()
	server := redistest.StartOne(t)
	do(t, server, "ACL", "SETUSER", "locker", "on", ">secret", "~TestUser*", "+set", "+get", "+del", "+pexpire", "+eval", "+evalsha", "+select")
	worksWith(t, as(t, server, url.UserPassword("locker", "secret"), "/2"), server, 2)
	do(t, server, "ACL", "SETUSER", "locker", "-eval")
	do(t, server, "ACL", "SETUSER", "admin", "on", ">secret", "~*", "+@all")
	worksWith(t, as(t, server, url.UserPassword("admin", "secret"), "/2"), server, 2)
}

func TestWrongPasswordIsNamedAndNotShown(t *testing.T) {
	t.Parallel()
	server := redistest.StartOne(t, redistest.WithPassword("right"))
	for _, c := range []struct {
		user  *url.Userinfo
		words string
	}{
		{url.UserPassword("", "hunter2hunter2"), "WRONGPASS"},
		{url.UserPassword("nobody", "hunter2hunter2"), "WRONGPASS"},
		{nil, "NOAUTH"},
	} {
		l := cluster.NewLocker(t, []string{as(t, server, c.user, "")}, redlock.WithNodeTimeout(patience))
		_, err := l.TryLock(t.Context(), cluster.LockName(t))
		t.Log(err)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, c.words)
		assert.NotContains(t, err.Error(), "hunter2")
	}
}
