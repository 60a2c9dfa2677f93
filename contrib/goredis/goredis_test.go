package goredis_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/contrib/goredis"
	"github.com/redquorum/redquorum/internal/proof/docs"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// requireLock requires that a Locker made of the options acquires a lock, and that go-redis
// connects with the same options.
func requireLock(t *testing.T, options ...*redis.Options) {
	t.Helper()
	for _, o := range options {
		client := redis.NewClient(o)
		require.NoError(t, client.Ping(t.Context()).Err())
		require.NoError(t, client.Close())
	}
	endpoints, opts, err := goredis.Endpoints(options...)
	require.NoError(t, err)
	locker := cluster.NewConnected(t, endpoints, redlock.WithPool(opts...))
	lock, err := locker.Lock(t.Context(), "orders")
	require.NoError(t, err)
	require.NoError(t, lock.Unlock(t.Context()))
}

// start returns the options of three servers.
func start(t *testing.T, opts ...redistest.Option) (options []*redis.Options, servers []*redistest.Server) {
	t.Helper()
	servers = redistest.Start(t, 3, opts...)
	for _, server := range servers {
		options = append(options, &redis.Options{Addr: server.Addr(), DB: 3})
	}
	return options, servers
}

func TestAddressDatabaseAndPasswordAreCarriedOver(t *testing.T) {
	const password = "p@ss:/?#[]% \"'é\\"
	options, servers := start(t, redistest.WithPassword(password))
	for _, o := range options {
		o.Password = password
	}
	endpoints, opts, err := goredis.Endpoints(options...)
	require.NoError(t, err)
	assert.Empty(t, opts)
	locker := cluster.NewConnected(t, endpoints)
	lock, err := locker.Lock(t.Context(), "orders")
	require.NoError(t, err)
	cluster.Eventually(t, 20*time.Second, func() string { // a quorum answered, this one may be late
		if reply, err := servers[0].Do("EVAL", "redis.call('SELECT', 3) return redis.call('GET', 'orders')", 0); err != nil || reply == nil {
			return "the lock in database 3"
		}
		return ""
	})
	require.NoError(t, lock.Unlock(t.Context()))
	requireLock(t, options...)
}

func TestUsersAreCarriedOver(t *testing.T) {
	options, servers := start(t)
	for i, o := range options {
		_, err := servers[i].Do("ACL", "SETUSER", "a:b@c", "on", ">x/y", "~*", "&*", "+@all")
		require.NoError(t, err)
		_, err = servers[i].Do("ACL", "SETUSER", "default", "off")
		require.NoError(t, err)
		o.Username, o.Password = "a:b@c", "x/y"
	}
	requireLock(t, options...)
}

func TestCredentialProvidersAreCarriedOverAndComeBeforePasswords(t *testing.T) {
	options, _ := start(t, redistest.WithPassword("secret"))
	options[0].Password = "secret"
	options[1].Password = "wrong"
	options[1].CredentialsProvider = func() (string, string) { return "", "secret" }
	options[2].CredentialsProvider = func() (string, string) { return "", "wrong" }
	options[2].CredentialsProviderContext = func(context.Context) (string, string, error) { return "", "secret", nil }
	requireLock(t, options...)
}

func TestDialersAreCarriedOverEachToItsOwnMaster(t *testing.T) {
	options, servers := start(t)
	var dialed [2]atomic.Int32
	for i := range dialed {
		options[i].Addr = []string{"Nowhere.example:1", ""}[i] // a dialer need not look at it
		options[i].Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			assert.Equal(t, "tcp", network)
			assert.Equal(t, []string{"Nowhere.example:1", "localhost:6379"}[i], address)
			dialed[i].Add(1)
			return new(net.Dialer).DialContext(ctx, "tcp", servers[i].Addr())
		}
	}
	requireLock(t, options...)
	assert.Positive(t, dialed[0].Load())
	assert.Positive(t, dialed[1].Load())
}

func TestADialerThatIgnoresItsContextDoesNotHoldUpClose(t *testing.T) {
	release := make(chan struct{})
	dialed, closed := make(chan struct{}, 100), make(chan struct{})
	endpoints, opts, err := goredis.Endpoints(&redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		dialed <- struct{}{}
		<-release
		go func() {
			_, err := theirs.Read(make([]byte, 1))
			assert.Error(t, err)
			closed <- struct{}{}
		}()
		return ours, nil
	}})
	require.NoError(t, err)
	locker, err := redlock.New(endpoints, redlock.WithPool(opts...))
	require.NoError(t, err)
	<-dialed
	require.NoError(t, locker.Close())
	close(release)
	<-closed // nobody has it: it is closed
}

func TestOptionsOfAClientAreCarriedOver(t *testing.T) { // they have every default, and a dialer
	options, _ := start(t)
	for i, o := range options {
		client := redis.NewClient(o)
		options[i] = client.Options()
		require.NotNil(t, options[i].Dialer)
		require.NoError(t, client.Close())
	}
	requireLock(t, options...)
}

func TestUnixSocketsAreCarriedOver(t *testing.T) {
	options, servers := start(t, redistest.WithUnixSocket())
	for i, o := range options {
		o.Addr = servers[i].Socket()
	}
	options[1].CredentialsProvider = func() (string, string) { return "", "" }
	requireLock(t, options...)
}

func TestEndpointsAreThoseOfTheOptions(t *testing.T) {
	secret := redis.Options{Username: "u", Password: "p:@/%"}
	with := func(o redis.Options) *redis.Options {
		o.Username, o.Password = secret.Username, secret.Password
		return &o
	}
	for want, o := range map[string]*redis.Options{
		"redis://localhost:6379":                  {},
		"redis://a:6380":                          {Addr: "A:6380", Username: "without a password there is no AUTH"},
		"redis://localhost:1/2":                   {Addr: ":1", DB: 2},
		"redis://[::1]:6379":                      {Addr: "[::1]:6379"},
		"redis://u:p%3A%40%2F%25@a:1":             with(redis.Options{Addr: "a:1"}),
		"rediss://a:1/4":                          {Addr: "a:1", DB: 4, TLSConfig: &tls.Config{ServerName: "a"}},
		"unix:///run/redis%20%3F.sock?db=1":       {Addr: "/run/redis ?.sock", DB: 1},
		"unix://u:p%3A%40%2F%25@/run/a.sock?db=0": with(redis.Options{Network: "unix", Addr: "/run/a.sock"}),
	} {
		endpoints, _, err := goredis.Endpoints(o)
		require.NoError(t, err)
		assert.Equal(t, []string{want}, endpoints)
		node, err := pool.NewNode(endpoints[0])
		require.NoError(t, err, "the pool reads it")
		require.NoError(t, node.Close())
	}
}

type limiter struct{ redis.Limiter }

func TestWhatCannotBeCarriedOverIsRefused(t *testing.T) {
	roots := func() *tls.Config { return &tls.Config{RootCAs: x509.NewCertPool()} }
	other := roots()
	other.InsecureSkipVerify = true // nothing is dialed
	named := func(name string) *tls.Config { return &tls.Config{ServerName: name} }
	for text, options := range map[string][]*redis.Options{
		"no options":                {},
		"options 2":                 {{}, nil},
		"given before":              {{Addr: "a:1"}, {Addr: "A:1", DB: 1}},
		"OnConnect":                 {{OnConnect: func(context.Context, *redis.Conn) error { return nil }}},
		"Limiter":                   {{Limiter: limiter{}}},
		"DB":                        {{DB: -1}},
		"host:port":                 {{Addr: "redis://:secret@a:1"}},
		"a port from 1":             {{Addr: "a:6379x", Password: "secret"}},
		"not host:port":             {{Addr: " a:1"}},
		"neither tcp nor unix":      {{Network: "tcp6", Addr: "a:1"}},
		"not absolute":              {{Network: "unix", Addr: "a"}},
		"TLS on a unix socket":      {{Addr: "/a", TLSConfig: named("a")}},
		"client names":              {{Addr: "a:1", ClientName: "a"}, {Addr: "b:1"}},
		"TLS configurations differ": {{Addr: "a:1", TLSConfig: roots()}, {Addr: "b:1", TLSConfig: other}},
	} {
		_, _, err := goredis.Endpoints(options...)
		require.ErrorIs(t, err, pool.ErrEndpoint)
		assert.ErrorContains(t, err, text)
		assert.NotContains(t, err.Error(), "secret")
	}
}

// A new field of go-redis must be looked at before it is used.
func TestEveryFieldOfTheOptionsIsKnown(t *testing.T) {
	known := []string{
		// carried over
		"Network", "Addr", "ClientName", "Dialer", "Username", "Password", "CredentialsProvider",
		"CredentialsProviderContext", "DB", "TLSConfig",
		// refused
		"StreamingCredentialsProvider", "OnConnect", "Limiter",
		// about go-redis' own connections, retries and answers
		"NodeAddress", "Protocol", "MaxRetries", "MinRetryBackoff", "MaxRetryBackoff", "DialTimeout", "DialerRetries",
		"DialerRetryTimeout", "DialerRetryBackoff", "ReadTimeout", "WriteTimeout", "ContextTimeoutEnabled", "ReadBufferSize",
		"WriteBufferSize", "PipelineReadBufferSize", "PipelineWriteBufferSize", "PipelinePoolSize", "AutoPipelineOptions",
		"PoolFIFO", "PoolSize", "MaxConcurrentDials", "PoolTimeout", "MinIdleConns", "MaxIdleConns", "MaxActiveConns",
		"ConnMaxIdleTime", "ConnMaxLifetime", "ConnMaxLifetimeJitter", "DisableIndentity", "DisableIdentity", "IdentitySuffix",
		"UnstableResp3", "PushNotificationProcessor", "FailingTimeoutSeconds", "MaintNotificationsConfig",
		"ClientSideCacheConfig", "ClientSideCache", "ClientSideCacheStrategy", "ClientSideCacheRefreshOnInvalidate",
		"ClientSideCacheCoalesceMisses", "ClientSideCacheInvalidationBatchWindow",
	}
	for field := range reflect.TypeFor[redis.Options]().Fields() {
		if field.IsExported() {
			assert.True(t, slices.Contains(known, field.Name), field.Name)
		}
	}
}

func TestTheCodeOfTheReadmeCompiles(t *testing.T) {
	docs.RequireReadme(t, 1, "var a, b, c *redis.Options",
		"github.com/redis/go-redis/v9", "github.com/redquorum/redquorum/contrib/goredis")
}
