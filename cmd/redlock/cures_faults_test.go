package main

import (
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/internal/trouble"
)

// allFaults returns every row of the test.
func allFaults(t *testing.T) (all []fault) {
	for _, group := range [][]fault{connections(), certificates(), accesses(), characters(), states(), missing(t), renamed(), votes(), lists(), today(), restarts(), diskFaults} {
		all = append(all, group...)
	}
	return all
}

// diskFaults are those that take a small disk, on systems where a test can have one.
var diskFaults []fault

// relisted corrects the list.
func relisted(urls func(b *bed) []string) func(b *bed) {
	return func(b *bed) { b.urls = urls(b) }
}

// own is the list of the servers themselves.
func own(b *bed) (urls []string) {
	for _, s := range b.servers {
		urls = append(urls, s.URL())
	}
	return urls
}

// nowhere is a name that no resolver has to be asked about: a label is too long.
var nowhere = strings.Repeat("x", 64) + ".example"

// something listens, and answers a text to whatever it is told.
func (b *bed) something(answer string) (url string) {
	listener, err := redistest.Listen()
	require.NoError(b.t, err)
	b.t.Cleanup(func() { assert.NoError(b.t, listener.Close()) })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = client.Close() }()
				_, _ = client.Read(make([]byte, 1<<16)) //nolint:errcheck // the client may have left
				_, _ = client.Write([]byte(answer))     //nolint:errcheck // likewise
			}()
		}
	}()
	return "redis://" + listener.Addr().String()
}

func connections() []fault {
	return []fault{
		{
			kind: trouble.Refused, first: true, wrong: func(b *bed) { require.NoError(b.t, b.one().Kill()) },
			cure: func(b *bed) { require.NoError(b.t, b.servers[0].Restart()) }, says: "start the server there",
		},
		{
			kind: trouble.Unresolved, wrong: func(b *bed) { b.one(); b.urls = []string{"redis://" + nowhere} },
			cure: relisted(own), says: "correct the name in the list",
		},
		{
			kind: trouble.Silent, wrong: func(b *bed) { require.NoError(b.t, b.one().Stop()) },
			cure: func(b *bed) { require.NoError(b.t, b.servers[0].Continue()) }, says: "kill -CONT wakes one that was stopped",
		},
		{
			kind: trouble.NotRedis, first: true, wrong: func(b *bed) {
				b.one()
				server := httptest.NewServer(nil)
				b.t.Cleanup(server.Close)
				b.urls = []string{"redis://" + server.Listener.Addr().String()}
			},
			cure: relisted(own), says: "correct the port in the list",
		},
		{
			kind: trouble.TLSAtPlain, wrong: func(b *bed) { b.one(); b.urls = []string{"rediss://" + b.servers[0].Addr()} },
			cure: relisted(own), says: "write redis:// in the list",
		},
		{
			kind: trouble.Protected, wrong: func(b *bed) {
				b.one()
				b.urls = []string{b.something("-DENIED Redis is running in protected mode because protected mode is enabled\r\n")}
			},
			// A server answers so to other machines only: what is done there is not seen from here.
			cure: relisted(own), says: "set a password there, and give PASSWORD in the list as well", other: true,
		},
		{
			kind: trouble.Untrusted, wrong: func(b *bed) {
				authority := redistest.NewAuthority(b.t)
				b.urls = nil
				for range 2 {
					_, addr := authority.StartTLS(time.Hour*1000, durable, redistest.WithArgs("--tls-auth-clients", "no"))
					b.urls = append(b.urls, "rediss://"+addr+"?cacert="+authority.File)
				}
				b.urls = append(b.urls, redistest.StartOne(b.t, durable).URL())
				b.admit()
				b.all, b.urls = b.urls, b.urls[:2]
			},
			cure: relisted(func(b *bed) []string { return b.all }), says: "add it to the list",
		},
	}
}

func certificates() []fault {
	// secured starts a server with TLS and lists it, with a client certificate.
	secured := func(b *bed, lasts, ours time.Duration, names ...string) *redistest.Authority {
		authority, dir := redistest.NewAuthority(b.t), b.t.TempDir()
		cert, key := filepath.Join(dir, "client.pem"), filepath.Join(dir, "client.key")
		authority.Issue(ours, cert, key)
		authority.Names = names
		server, addr := authority.StartTLS(lasts, durable)
		b.servers, b.urls = []*redistest.Server{server}, []string{server.URL()}
		b.admit()
		authority.Names = nil
		b.value("CERT", filepath.Join(dir, "new.pem"))
		b.value("KEY", filepath.Join(dir, "new.key"))
		authority.Issue(1000*time.Hour, b.values["CERT"], b.values["KEY"])
		b.value("cert", cert)
		b.value("key", key)
		b.value("ca", authority.File)
		b.urls = []string{"rediss://" + addr + "?cacert=" + authority.File + "&cert=" + cert + "&key=" + key}
		return authority
	}
	const long, ended, soon = 1000 * time.Hour, -time.Hour, 48 * time.Hour
	return []fault{
		{
			kind: trouble.PlainAtTLS, wrong: func(b *bed) {
				secured(b, long, long)
				b.value("right", b.urls[0])
				at, _, _ := strings.Cut(strings.TrimPrefix(b.urls[0], "rediss://"), "?")
				b.urls = []string{"redis://" + at}
			},
			cure: relisted(func(b *bed) []string { return []string{b.values["right"]} }), says: "write rediss:// in the list",
		},
		{
			kind: trouble.ServerName, first: true, wrong: func(b *bed) { secured(b, long, long, "masters.example") },
			cure: relisted(func(b *bed) []string { return []string{b.urls[0] + "&servername=masters.example"} }),
			says: "add ?servername=NAME to the endpoint",
		},
		{
			kind: trouble.Authority, wrong: func(b *bed) {
				secured(b, long, long)
				b.urls[0] = strings.ReplaceAll(b.urls[0], "cacert="+b.values["ca"]+"&", "")
			},
			cure: func(b *bed) { b.args = []string{"--cacert", b.values["ca"]} }, says: "name its file with --cacert",
		},
		{kind: trouble.Expired, wrong: func(b *bed) { secured(b, ended, long) }},
		{
			kind: trouble.Certificate, how: "", wrong: func(b *bed) {
				secured(b, long, long)
				b.urls[0], _, _ = strings.Cut(b.urls[0], "&cert")
			},
			cure: func(b *bed) { b.args = []string{"--cert", b.values["cert"], "--key", b.values["key"]} }, says: "give --cert and --key",
		},
		{
			kind: trouble.Certificate, how: "ours has ended", wrong: func(b *bed) {
				secured(b, long, ended)
			},
			cure: relisted(func(b *bed) []string {
				url := strings.ReplaceAll(b.urls[0], b.values["cert"], b.values["CERT"])
				return []string{strings.ReplaceAll(url, b.values["key"], b.values["KEY"])}
			}), says: "that has not ended",
		},
		{kind: trouble.CertEnds, wrong: func(b *bed) { secured(b, soon, long) }},
		{
			kind: trouble.OwnCertEnds, wrong: func(b *bed) {
				authority := secured(b, long, soon)
				b.renew = func() { authority.Issue(long, b.values["cert"], b.values["key"]) }
			},
			cure: func(b *bed) { b.renew() }, says: "renew it in its files, which new connections read",
		},
	}
}

func accesses() []fault {
	const users = "user default on nopass ~* &* +@all\nuser app off >secret ~* &* +@all\n"
	withUser := func(endpoint string) func(b *bed) {
		return func(b *bed) {
			b.one(redistest.WithUsers(b.t, users, "", ""))
			b.urls = []string{"redis://" + endpoint + "@" + b.servers[0].Addr()}
		}
	}
	guarded := func(endpoint string) func(b *bed) {
		return func(b *bed) {
			b.one(redistest.WithPassword("sesame"))
			b.urls = []string{"redis://" + endpoint + b.servers[0].Addr()}
		}
	}
	return []fault{
		{
			kind: trouble.WrongPassword, first: true, wrong: guarded(":guess@"), cure: relisted(own), says: "correct user and password in the list",
		},
		{
			kind: trouble.WrongPassword, how: "WRONGPASS", wrong: withUser("nobody:secret"), cure: relisted(own), says: "correct user and password in the list",
		},
		{
			kind: trouble.WrongPassword, how: "user", wrong: withUser("app:secret"),
			cure: func(b *bed) { b.do(b.servers[0], "ACL", "SETUSER", "app", "on") }, says: "ACL LIST shows the users, and which are off",
		},
		{kind: trouble.NoPassword, wrong: guarded(""), cure: relisted(own), says: "give user and password in the list"},
		{
			kind: trouble.NeedlessPassword, how: "AUTH", wrong: func(b *bed) { b.one(); b.urls = []string{"redis://:sesame@" + b.servers[0].Addr()} },
			cure: relisted(own), says: "leave the password out of the list", other: true,
		},
		{
			kind: trouble.NeedlessPassword, wrong: func(b *bed) {
				b.one()
				b.admin = b.connect()
				b.urls = []string{"redis://:sesame@" + b.servers[0].Addr()}
				b.value("PASSWORD", "sesame")
			},
		},
		{
			kind: trouble.ManyClients, wrong: func(b *bed) {
				b.one()
				b.admin = b.connect()
				_, err := b.admin.Do("CONFIG", "SET", "maxclients", 1)
				require.NoError(b.t, err)
				b.value("NUMBER", "1000")
			},
		},
		{
			kind: trouble.Database, wrong: func(b *bed) { b.one(); b.urls[0] += "/99" },
			cure: relisted(own), says: "give a database below its `databases`",
		},
	}
}

func characters() []fault {
	return []fault{
		{
			kind: trouble.Replica, first: true, wrong: func(b *bed) {
				master := b.one()
				b.urls = []string{redistest.StartOne(b.t, replicaOf(master.Addr())).URL()}
			},
			cure: relisted(func(b *bed) []string { return []string{redistest.StartOne(b.t, durable).URL()} }),
			says: "give the endpoint of an independent master", left: []trouble.Kind{trouble.New},
		},
		{
			kind: trouble.Replica, how: "MASTERDOWN", wrong: func(b *bed) {
				b.one()
				stale := redistest.WithArgs("--replica-serve-stale-data", "no")
				b.urls = []string{redistest.StartOne(b.t, replicaOf(redistest.FreeAddr(b.t)), stale).URL()}
			},
			cure: relisted(own), says: "give the endpoint of an independent master",
		},
		{
			kind: trouble.Cluster, wrong: func(b *bed) { b.change = b.configured("cluster-enabled yes") },
			cure: func(b *bed) { b.change("") }, says: "which has cluster-enabled no in its configuration",
		},
		{
			kind: trouble.Sentinel, wrong: func(b *bed) { b.one(); b.urls = []string{redistest.StartOne(b.t, redistest.WithSentinel()).URL()} },
			cure: relisted(own), says: "give the endpoint of an independent master",
		},
		{
			kind: trouble.Evicts, first: true, wrong: func(b *bed) {
				s := b.one()
				b.do(s, "CONFIG", "SET", "maxmemory", "100mb")
				b.do(s, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
			},
		},
		{
			kind: trouble.Twin, wrong: func(b *bed) { b.some(2); b.urls = append(b.urls, redistest.OtherName(b.urls[0])) },
			cure: relisted(own), says: "remove this one from the list",
		},
		{
			kind: trouble.Several, first: true, wrong: func(b *bed) {
				b.some(3)
				b.urls = []string{b.balancer()}
			},
			cure: relisted(own), says: "give each master an endpoint of its own",
		},
		{
			kind: trouble.NoScripts, wrong: func(b *bed) { b.user("+@all", "~*", "&*", "-evalsha") },
		},
	}
}

// replicaOf makes a server the replica of one at an address.
func replicaOf(addr string) redistest.Option {
	host, port, _ := strings.Cut(addr, ":")
	return redistest.WithArgs("--replicaof", host, port)
}

// balancer leads to another server with each connection.
func (b *bed) balancer() string {
	listener, err := redistest.Listen()
	require.NoError(b.t, err)
	b.t.Cleanup(func() { assert.NoError(b.t, listener.Close()) })
	go func() {
		for i := 0; ; i++ {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", b.servers[i%len(b.servers)].Addr())
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

// user makes the list that of a user with these rights, at one master.
func (b *bed) user(rights ...string) {
	s := b.one()
	b.do(s, append([]string{"ACL", "SETUSER", "app", "on", ">poverty"}, rights...)...)
	b.urls = []string{"redis://app:poverty@" + s.Addr()}
}

func states() []fault {
	fill := func(key string, limit string) func(b *bed) {
		return func(b *bed) {
			s := b.one()
			const script = "for i = 1, 500 do redis.call('SET', string.format(ARGV[1], ARGV[2] .. i), string.rep('x', 4000), 'PX', 3600000) end"
			for part := range 5 { // each is done soon enough on a busy disk
				b.do(s, "EVAL", script, "0", strings.Replace(key, "%d", "%s", 1), fmt.Sprint(part, "/"))
			}
			if limit == "" { // a little more than is used
				used, err := redis.String(s.Do("INFO", "memory"))
				require.NoError(b.t, err)
				_, used, _ = strings.Cut(used, "used_memory:")
				used, _, _ = strings.Cut(used, "\r")
				var n int
				_, err = fmt.Sscan(used, &n)
				require.NoError(b.t, err)
				limit = fmt.Sprint(n + n/14)
			}
			b.do(s, "CONFIG", "SET", "maxmemory", limit)
		}
	}
	return []fault{
		{
			kind: trouble.Loading, wrong: func(b *bed) {
				s := b.one(redistest.WithArgs("--key-load-delay", "100", "--loading-process-events-interval-bytes", "1024", "--aof-use-rdb-preamble", "no"))
				b.do(s, "EVAL", "for i = 1, 30000 do redis.call('SET', 'key' .. i, string.rep('x', 100), 'PX', 3600000) end", "0")
				b.restarted = make(chan error, 1)
				go func() { b.restarted <- s.Restart() }()
			},
			cure: func(b *bed) { require.NoError(b.t, <-b.restarted) }, says: "wait: INFO persistence says for how long",
		},
		{
			kind: trouble.Busy, first: true, wrong: func(b *bed) {
				s := b.one()
				b.do(s, "CONFIG", "SET", "busy-reply-threshold", "50")
				go func() { _, _ = s.Do("EVAL", "while true do end", 0) }() //nolint:errcheck // it is killed
			},
		},
		{
			kind: trouble.NotWriting, wrong: func(b *bed) {
				b.lose(b.one(redistest.WithArgs("--save", "3600 1000")))
			},
			cure: func(b *bed) { b.renew() }, says: "let the server write to its directory (CONFIG GET dir)",
		},
		{
			kind: trouble.SaveFails, wrong: func(b *bed) {
				b.lose(b.one(redistest.WithArgs("--save", "3600 1000", "--stop-writes-on-bgsave-error", "no")))
			},
			cure: func(b *bed) { b.renew() }, says: "let the server write to its directory (CONFIG GET dir)",
		},
		{kind: trouble.Full, wrong: fill("cache:%d", "5mb")},
		{kind: trouble.FullOfOurs, first: true, wrong: fill("redquorum:permits:download/user-%d", "5mb")},
		{kind: trouble.FullOfOurs, how: "redquorum:fence:", wrong: fill("redquorum:fence:%d", "5mb")},
		{kind: trouble.FullOfOurs, how: "keys beside locks", wrong: fill("redquorum:waits:%d", "5mb")},
		{kind: trouble.NearlyFull, wrong: fill("cache:%d", "")},
		{kind: trouble.OursFill, wrong: fill("redquorum:terms:%d", "")},
		{kind: trouble.FewReplicas, first: true, wrong: func(b *bed) { b.do(b.one(), "CONFIG", "SET", "min-replicas-to-write", "1") }},
		{
			kind: trouble.Slow, wrong: func(b *bed) {
				proxy := redistest.NewProxy(b.t, b.one().Addr())
				proxy.Delay(redistest.Replies, 60*time.Millisecond, 0)
				b.urls, b.args = []string{proxy.URL()}, []string{"--ttl", "1s"}
				b.renew = proxy.Heal
			},
			cure: func(b *bed) { b.renew() }, says: "check for slow commands (SLOWLOG GET) and a busy machine",
		},
		{
			kind: trouble.NoString, first: true, wrong: func(b *bed) { b.do(b.one(), "HSET", "x", "a", "b"); b.args = []string{"--name", "x"} },
			cure: func(b *bed) { b.args = []string{"--name", "y"} }, says: "use another name",
		},
		{
			kind: trouble.Lasting, wrong: func(b *bed) { b.do(b.one(), "SET", "x", "v"); b.args = []string{"--name", "x"} },
			cure: func(b *bed) { b.args = []string{"--key-prefix", "app:", "--name", "x"} }, says: "use another name or --key-prefix",
		},
	}
}

// lose puts a directory where a server saves, so that it cannot.
func (b *bed) lose(s *redistest.Server) {
	dir, err := redis.Strings(s.Do("CONFIG", "GET", "dir"))
	require.NoError(b.t, err)
	file := filepath.Join(dir[1], "dump.rdb")
	require.NoError(b.t, os.MkdirAll(filepath.Join(file, "x"), 0o700))
	b.renew = func() { require.NoError(b.t, os.RemoveAll(file)) }
	b.do(s, "BGSAVE")
}
