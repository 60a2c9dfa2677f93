package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/docs"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/internal/trouble"
	"github.com/redquorum/redquorum/redlock"
)

// kindsOfRights are those of rights that are not just [trouble.Right].
var kindsOfRights = map[string]trouble.Kind{
	"+evalsha": trouble.NoScripts, "+info": trouble.Unidentified, "+publish": trouble.Channels, "+subscribe": trouble.Channels,
	"&redquorum:wake:*": trouble.Channels, "~app:*": trouble.Keys, "~redquorum:memory": trouble.Marker, "~redquorum:members": trouble.Register,
	"~redquorum:waits:app:*": trouble.Derived,
}

// missing takes each right away that docs/operations.md gives a user.
func missing(t *testing.T) (all []fault) {
	rule := append(docs.ACLRule(t, "../..", "app")[2:], "~redquorum:terms:app:*")
	for _, right := range rule {
		if right == "resetchannels" || right == "-@all" || slices.Contains([]string{"+auth", "+client|setname"}, right) {
			continue // needed by nobody
		}
		kind := kindsOfRights[right]
		if kind == "" {
			kind = trouble.Right
		}
		var left []trouble.Kind
		if right == "+select" { // nobody has used another database
			left = []trouble.Kind{trouble.New}
		}
		all = append(all, fault{
			kind: kind, how: right, left: left, atLoad: right == "+acl|dryrun", first: right == "+zadd" || right == "~redquorum:fence:app:*" || right == "+set",
			wrong: func(b *bed) {
				b.user(slices.DeleteFunc(slices.Clone(rule), func(one string) bool { return one == right })...)
				if b.args = []string{"--key-prefix", "app:"}; right == "+select" {
					b.urls[0] += "/1"
				}
			},
		})
	}
	return append(all,
		fault{
			kind: trouble.NoKey, wrong: func(b *bed) {
				b.user("~app:*", "~redquorum:*", "&*", "+@all")
				b.args = []string{"--name", "x"}
			}, left: []trouble.Kind{trouble.Right}, // for semaphores of this name
		},
		fault{
			kind: trouble.Keys, how: "prefix", wrong: func(b *bed) { b.user("~app:*", "~redquorum:[a-ce-z]*", "&*", "+@all") },
			cure: func(b *bed) { b.args = []string{"--key-prefix", "app:"} }, says: "give the --key-prefix", other: true,
		})
}

// renamed disables each command that a lock needs.
func renamed() (all []fault) {
	for _, command := range []string{
		"SET", "GET", "DEL", "PEXPIRE", "PTTL", "EVAL", "EVALSHA", "SCRIPT", "CONFIG", "TIME", "PING", "CLIENT", "PUBSUB",
		"PUBLISH", "SUBSCRIBE", "MGET", "EXISTS", "ZADD", "ZREM", "ZCARD", "ZSCORE", "ZRANGE", "ZPOPMIN", "PEXPIREAT", "ZREMRANGEBYSCORE", "ACL",
	} {
		kind := trouble.Unknown
		all = append(all, fault{
			kind: kind, how: command, first: command == "ZADD", atLoad: command == "ACL",
			wrong: func(b *bed) { b.change = b.configured("rename-command " + command + ` ""`) },
			cure:  func(b *bed) { b.change("") }, says: "take the rename-command of this command out of the server's configuration, and restart it",
		})
	}
	return all
}

func votes() []fault {
	// lost has a master that forgot, and a client that has noticed.
	lost := func(b *bed) {
		b.some(3)
		l, err := redlock.New(b.urls, redlock.WithTTL(maxTTL), redlock.WithMaxTTL(maxTTL))
		require.NoError(b.t, err)
		require.NoError(b.t, l.Ready(b.t.Context()))
		b.do(b.servers[0], "FLUSHALL")
		require.NoError(b.t, b.servers[0].Restart())
		clitest.WaitFor(b.t, "the loss is noticed", func() bool { return l.Stats().Nodes[0].Memory == "lost" })
		require.NoError(b.t, l.Close())
	}
	return []fault{
		{kind: trouble.Lost, first: true, wrong: lost},
		{kind: trouble.Lost, how: "wait", wrong: lost, cure: (*bed).use, says: "wait", other: true},
		{
			kind: trouble.Quarantined, wrong: func(b *bed) { b.do(b.one(), "SET", pipeline.MemoryKey, "somebody else's") },
			cure: (*bed).use, says: "wait",
		},
		{
			kind: trouble.Unasked, wrong: func(b *bed) { require.NoError(b.t, b.one().Restart()) },
			cure: (*bed).use, says: "the next client that takes a lock makes it vote",
		},
		{
			kind: trouble.New, first: true, wrong: func(b *bed) { b.fresh(1) }, cure: func(b *bed) { b.admit() }, says: "the first client makes them vote",
		},
		{kind: trouble.NewWaits, wrong: func(b *bed) { b.fresh(1); b.args = []string{"--strict"} }},
		{
			kind: trouble.NewIncludes, wrong: func(b *bed) { require.NoError(b.t, b.fresh(3)[2].Kill()) },
			cure: func(b *bed) { require.NoError(b.t, b.servers[2].Restart()) }, says: "start the masters that are missing", left: []trouble.Kind{trouble.New},
		},
		{
			kind: trouble.Torn, wrong: func(b *bed) {
				b.do(b.one(), "DEL", pipeline.RegisterKey)
				b.args = []string{"--max-ttl", maxTTL.String(), "--ttl", maxTTL.String()}
			},
		},
		{
			kind: trouble.NotMember, first: true, wrong: func(b *bed) {
				b.some(1)
				b.servers = append(b.servers, redistest.StartOne(b.t, durable))
				b.urls = own(b)
			},
		},
		{
			kind: trouble.NotMember, how: "new", wrong: func(b *bed) {
				b.some(3)
				b.urls = append(b.urls, redistest.StartOne(b.t, durable).URL())
			},
			cure: relisted(own), says: "take it out of the list", other: true,
		},
		{
			kind: trouble.OtherCluster, wrong: func(b *bed) {
				other := b.some(3)[0].URL()
				b.some(3)
				b.urls = append(b.urls, other)
			},
			cure: relisted(own), says: "take it out of the list",
		},
		{
			kind: trouble.Conflict, wrong: func(b *bed) {
				others := b.some(2)
				b.some(2)
				b.urls = append(b.urls, others[0].URL(), others[1].URL())
			},
			cure: relisted(own), says: "give only masters of one cluster",
		},
		{
			kind: trouble.NoMajority, wrong: func(b *bed) { b.some(3); b.urls = b.urls[:1] },
			cure: relisted(own), says: "list all members of the cluster",
		},
		{
			kind: trouble.LaterMarker, wrong: func(b *bed) {
				b.do(b.one(), "SET", pipeline.MemoryKey, "active a b 1 1000 c needs=9")
			},
			// That version would write what it knows; it is not there yet.
			cure: func(b *bed) { b.some(1) }, says: "use a version of redquorum that is as new as the newest",
		},
	}
}

func lists() []fault {
	return []fault{
		{
			kind: trouble.Unlisted, first: true, wrong: func(b *bed) { b.some(3); b.urls = b.urls[:2] },
			cure: relisted(own), says: "put it into the list of every client",
		},
		{
			kind: trouble.NoSuch, wrong: func(b *bed) { b.some(3); b.urls = append(b.urls, "redis://"+redistest.FreeAddr(b.t)) },
			cure: relisted(own), says: "take it out of the list of every client",
		},
		{kind: trouble.LongTTL, first: true, wrong: func(b *bed) { b.some(3); b.args = []string{"--ttl", "2s"} }},
		{
			kind: trouble.LongTTL, how: "ttl", wrong: func(b *bed) { b.some(3); b.args = []string{"--ttl", "2s"} },
			cure: func(b *bed) { b.args = []string{"--ttl", "1s"} }, says: "use a shorter TTL", other: true,
		},
		{
			kind: trouble.OneMaster, wrong: func(b *bed) { b.one() }, cure: func(b *bed) { b.some(3) }, says: "use three or five masters",
		},
		{
			kind: trouble.Even, wrong: func(b *bed) { b.some(2) }, cure: func(b *bed) { b.some(3) }, says: "use an odd number",
		},
	}
}

func today() []fault {
	// wrongClock starts masters whose clock is wrong until renew.
	wrongClock := func(b *bed, n int, offset string) (servers []*redistest.Server) {
		file := filepath.Join(b.t.TempDir(), "time")
		env := redistest.FakeTime(offset)
		if env == nil || os.Getenv("REDQUORUM_SERVER") != "" {
			b.t.Skip("a wrong clock takes libfaketime, and a server of this machine's C library")
		}
		env = append(slices.DeleteFunc(env, func(one string) bool { return strings.HasPrefix(one, "FAKETIME=") }), "FAKETIME_TIMESTAMP_FILE="+file)
		require.NoError(b.t, os.WriteFile(file, []byte(offset+"\n"), 0o600))
		b.renew = func() { require.NoError(b.t, os.WriteFile(file, []byte("+0s\n"), 0o600)) }
		return redistest.Start(b.t, n, durable, redistest.WithEnv(env...))
	}
	clock := func(offset string) func(b *bed) {
		return func(b *bed) {
			servers := wrongClock(b, 1, offset)
			b.fresh(2)
			b.servers = append(b.servers, servers...)
			b.urls = own(b)
			b.admit()
		}
	}
	const forTheirs = "run NTP on the machine of the master"
	return []fault{
		{kind: trouble.Clock, how: "ahead of ours", wrong: clock("+20s"), cure: func(b *bed) { b.renew() }, says: forTheirs},
		{kind: trouble.Clock, how: "behind ours", wrong: clock("-2s"), cure: func(b *bed) { b.renew() }, says: forTheirs},
		{
			kind: trouble.OurClock, wrong: func(b *bed) { b.servers = wrongClock(b, 3, "+20s"); b.urls = own(b); b.admit() },
			cure: func(b *bed) { b.renew() }, says: "run NTP on this machine",
		},
		{
			kind: trouble.LoadsPart, first: true, atLoad: true, wrong: func(b *bed) {
				b.one(redistest.WithUsers(b.t, "user default off\nuser all on >secret +@all ~* &*\n", "all", "secret"))
			}, left: []trouble.Kind{trouble.WasForgetful},
		},
		{
			kind: trouble.HasReplicas, wrong: func(b *bed) {
				s := b.one()
				replica := redistest.StartOne(b.t, replicaOf(s.Addr()))
				b.renew = func() { require.NoError(b.t, replica.Kill()) }
			},
			cure: func(b *bed) { b.renew() }, says: "A replica that nobody needs is ended there", left: []trouble.Kind{trouble.WasForgetful},
		},
	}
}

func restarts() []fault {
	with := func(args ...string) func(b *bed) {
		return func(b *bed) { b.one(redistest.WithArgs(args...)) }
	}
	left := []trouble.Kind{trouble.WasForgetful}
	return []fault{
		{kind: trouble.NoPersistence, first: true, wrong: with("--appendonly", "no"), left: left},
		{kind: trouble.Snapshots, wrong: with("--appendonly", "no", "--save", "60 1"), left: left},
		{kind: trouble.Fsync, wrong: with("--appendfsync", "everysec"), left: left},
		{kind: trouble.Fsync, how: "no", wrong: with("--appendfsync", "no"), left: left},
		{kind: trouble.OnRewrite, wrong: with("--no-appendfsync-on-rewrite", "yes"), left: left},
		{kind: trouble.Truncated, wrong: with("--aof-load-truncated", "yes"), left: left},
		{
			kind: trouble.WasForgetful, wrong: func(b *bed) {
				s := b.one(redistest.WithArgs("--appendfsync", "everysec"))
				b.do(s, "CONFIG", "SET", "appendfsync", "always")
			},
			cure: func(b *bed) { require.NoError(b.t, b.servers[0].RestartWith("--appendfsync", "always")) }, says: "restart it at a quiet moment: after the quarantine that follows it forgets nothing",
		},
	}
}
