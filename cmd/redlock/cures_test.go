package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/internal/trouble"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// fault is a trouble on real servers, and the cure that redlock doctor prints for it.
type fault struct {
	kind   trouble.Kind
	how    string         // which of several of this kind; "" for the only one
	wrong  func(b *bed)   // makes it so
	cure   func(b *bed)   // does what the text says; nil if the printed commands are all there is to do
	says   string         // what the text must say, because cure does it
	left   []trouble.Kind // what doctor is right to say afterwards
	atLoad bool           // only of servers that ask the rights of a user when they load their log
	other  bool           // cure is another way than the printed commands
	first  bool           // one of those that the quick run has
}

// bed is what a fault is tried on.
type bed struct {
	t       *testing.T
	servers []*redistest.Server
	urls    []string // what is in the list
	args    []string // of doctor
	values  map[string]string
	admin   redis.Conn // a connection that was there before the fault; nil if there is none

	// What a cure needs of its fault.
	renew     func()
	all       []string
	change    func(text string)
	restarted chan error
}

// consultation is what redlock doctor --json prints, as far as the test needs it.
type consultation struct {
	Findings []advice
	Nodes    []struct {
		Endpoint, Rights string
		Findings         []advice
	}
}

type advice struct {
	Severity      trouble.Severity
	Kind          trouble.Kind
	What, Why, Do string
	Commands      []string
}

// durable makes a master of which doctor has nothing to say.
var durable = redistest.WithArgs("--appendonly", "yes", "--appendfsync", "always", "--aof-load-truncated", "no")

// maxTTL is that of the clusters of this test, which wait for it.
const maxTTL = time.Second

// one starts a master that votes.
func (b *bed) one(opts ...redistest.Option) *redistest.Server { return b.some(1, opts...)[0] }

// some starts masters that vote.
func (b *bed) some(n int, opts ...redistest.Option) []*redistest.Server {
	b.t.Helper()
	b.fresh(n, opts...)
	b.admit()
	return b.servers
}

// fresh starts masters that nobody has used.
func (b *bed) fresh(n int, opts ...redistest.Option) []*redistest.Server {
	b.t.Helper()
	b.servers = redistest.Start(b.t, n, append([]redistest.Option{durable}, opts...)...)
	b.urls = clitest.URLs(b.servers)
	return b.servers
}

// admit makes the masters of the list vote.
func (b *bed) admit(opts ...redlock.Option) {
	b.t.Helper()
	l, err := redlock.New(b.urls, append([]redlock.Option{redlock.WithTTL(maxTTL), redlock.WithMaxTTL(maxTTL)}, opts...)...)
	require.NoError(b.t, err)
	cluster.RequireUp(b.t, l, func(n redlock.NodeStats) bool { return n.Barred == nil })
	require.NoError(b.t, l.Close())
}

// do runs a command at a server.
func (b *bed) do(s *redistest.Server, words ...string) {
	b.t.Helper()
	_, err := s.Do(words[0], redis.Args{}.AddFlat(words[1:])...)
	require.NoError(b.t, err, words)
}

// configured starts a master with directives in a file, which change changes, with a restart.
func (b *bed) configured(text string) (change func(text string)) {
	b.t.Helper()
	file := b.t.TempDir() + "/include.conf"
	require.NoError(b.t, os.WriteFile(file, []byte(text), 0o600))
	s := b.fresh(1, redistest.WithArgs("--include", file))[0]
	return func(text string) {
		b.t.Helper()
		require.NoError(b.t, os.WriteFile(file, []byte(text), 0o600))
		require.NoError(b.t, s.Restart())
	}
}

// use takes a lock, as programs do all the time: it is they who make a master vote again.
func (b *bed) use() {
	b.t.Helper()
	l, err := redlock.New(b.urls, redlock.WithTTL(maxTTL), redlock.WithMaxTTL(maxTTL))
	require.NoError(b.t, err)
	ctx, cancel := context.WithTimeout(b.t.Context(), 10*time.Second)
	defer cancel()
	_ = l.Ready(ctx) //nolint:errcheck // doctor says what keeps them from it
	lacking := func(n redlock.NodeStats) bool { return n.State != pool.Up || n.Barred != nil }
	for slices.ContainsFunc(l.Stats().Nodes, lacking) && clock.Sleep(ctx, clock.System(), 20*time.Millisecond) {
	}
	_ = l.Close() // what it could not deliver ends by itself
}

func (b *bed) value(name, value string) { b.values[name] = value }

// consult asks doctor.
func (b *bed) consult() (all []advice, c consultation) {
	b.t.Helper()
	args := []string{"doctor", "--json", "--ttl", maxTTL.String(), "--nodes", strings.Join(b.urls, ",")}
	_, stdout, stderr := line(append(args, b.args...)...)
	require.Empty(b.t, stderr)
	require.NoError(b.t, json.Unmarshal([]byte(stdout), &c), stdout)
	for _, secret := range []string{"sesame", "guess", "poverty"} {
		assert.NotContains(b.t, stdout, secret)
	}
	all = c.Findings
	for _, n := range c.Nodes {
		all = append(all, n.Findings...)
	}
	return all, c
}

// perform does what a finding says, as whoever reads it.
func (b *bed) perform(f *fault, a *advice) (done string) {
	b.t.Helper()
	if f.cure != nil {
		require.Contains(b.t, a.Do, f.says)
		require.NotEmpty(b.t, f.says, "what says that to the reader: %q", a.Do)
		f.cure(b)
		done = "as it says"
	}
	if f.other {
		return done
	}
	b.value("LIST", strings.Join(b.urls, ","))
	for _, command := range a.Commands {
		words := strings.Fields(command)
		for i, word := range words {
			if value, known := b.values[word]; known {
				assert.Contains(b.t, a.Do, word, "what the reader puts there")
				words[i] = value
			}
		}
		if words[0] == "redlock" {
			status, stdout, stderr := line(words[1:]...)
			require.Zero(b.t, status, "%s\n%s%s", command, stdout, stderr)
		} else {
			b.ask(words)
		}
		done = strings.TrimPrefix(done+"; "+command, "; ")
	}
	require.NotEmpty(b.t, done, "no cure")
	return done
}

// ask runs a command at the master that the finding is about.
func (b *bed) ask(words []string) {
	b.t.Helper()
	args := redis.Args{}.AddFlat(words[1:])
	if b.admin != nil {
		_, err := b.admin.Do(words[0], args...)
		require.NoError(b.t, err, words)
		return
	}
	_, err := b.servers[0].Do(words[0], args...)
	require.NoError(b.t, err, words)
}

// connect opens a connection that is there before the fault.
func (b *bed) connect() redis.Conn {
	b.t.Helper()
	conn, err := redis.Dial("tcp", b.servers[0].Addr())
	require.NoError(b.t, err)
	b.t.Cleanup(func() { assert.NoError(b.t, conn.Close()) })
	return conn
}

// TestCures puts what can be wrong on real servers, reads what redlock doctor says, does it, and
// asks again. With -v it prints the table.
func TestCures(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("not with -short: it starts a server or more for each trouble")
	}
	var mu sync.Mutex
	rows := map[string]string{}
	t.Run("each", func(t *testing.T) {
		for i, f := range allFaults(t) {
			if !virtual.Thorough() && !f.first {
				continue
			}
			t.Run(strings.TrimSuffix(string(f.kind)+" "+f.how, " "), func(t *testing.T) {
				t.Parallel()
				row := f.try(&bed{t: t, values: map[string]string{}})
				mu.Lock()
				defer mu.Unlock()
				rows[fmt.Sprintf("%03d", i)] = row
			})
		}
	})
	if !testing.Verbose() {
		return
	}
	t.Log("wrong | error of the library | finding of doctor | cure | done | afterwards")
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		t.Log(rows[key])
	}
}

// unmade are the troubles that no server of this test can be made to have, and what shows them.
var unmade = map[trouble.Kind]string{
	trouble.NoRoute: "a machine without a route", trouble.Ended: "a proxy on a socket: over TCP the same means plain-at-tls at first",
	trouble.Unreachable: "an error that is none of the others", trouble.Addresses: "a name server (TestOneNameOfSeveralAddressesIsNamed)",
	trouble.NoDryRun: "Redis 6", trouble.OldVersion: "Redis 4 (TestFindingsFromFacts)",
	trouble.Removed:     "a client that was there before (TestARemovedMasterIsToldBeforeItIsLeft)",
	trouble.OtherMarker: "the moment between a restart and a client", trouble.SameHost: "addresses beside the loopback (TestMastersOnOneHostAreNamed)",
}

// Each trouble is put on a server, or there is a reason why not.
func TestEachTroubleIsMade(t *testing.T) {
	made := map[trouble.Kind]bool{trouble.LogFails: true} // where a test can have a small disk
	for _, f := range allFaults(t) {
		made[f.kind] = true
	}
	for _, row := range trouble.Table {
		assert.NotEqual(t, made[row.Kind], unmade[row.Kind] != "", row.Kind)
	}
}

// try returns a row of the table.
func (f *fault) try(b *bed) string {
	f.wrong(b)
	if f.atLoad {
		info, err := redis.String(b.servers[0].Do("INFO", "server"))
		require.NoError(b.t, err)
		if strings.Contains(info, "\nvalkey_version:9.") {
			b.t.Skip("no trouble here: this server asks nobody's rights when it loads its log")
		}
	}
	var found *advice
	cluster.Eventually(b.t, 20*time.Second, func() string { // some troubles take a moment to be there
		all, c := b.consult()
		at := slices.IndexFunc(all, func(a advice) bool { return a.Kind == f.kind && strings.Contains(fmt.Sprint(a), f.how) })
		if at < 0 {
			return fmt.Sprintf("doctor does not find %s: %+v", f.kind, all)
		}
		found = &all[at]
		if f.kind == trouble.Unknown {
			assert.Empty(b.t, found.Commands)
			assert.Empty(b.t, c.Nodes[0].Rights, "no rule brings it back")
		}
		return ""
	})
	if b.t.Failed() {
		b.t.FailNow()
	}
	said := b.fromLibrary(f)
	done := b.perform(f, found)
	if !slices.Contains(f.left, trouble.New) {
		b.use()
	}
	var left []string
	cluster.Eventually(b.t, 15*time.Second, func() string {
		all, _ := b.consult()
		left = nil
		for _, a := range all {
			if !slices.Contains(f.left, a.Kind) && !slices.Contains(noise, a.Kind) || a.Kind == f.kind {
				return fmt.Sprintf("after its cure (%s), doctor says: %+v", done, a)
			}
			if slices.Contains(f.left, a.Kind) {
				left = append(left, string(a.Kind))
			}
		}
		return ""
	})
	after := cmp.Or(strings.Join(slices.Compact(left), ", "), "content")
	return strings.Join([]string{
		strings.TrimSuffix(string(f.kind)+" "+f.how, " "), said, string(found.Severity) + ": " + found.What,
		found.Do, done, after,
	}, " | ")
}

// noise is what doctor may say of masters of a test, whatever else is wrong: there is one of them,
// and the machine is busy.
var noise = []trouble.Kind{trouble.OneMaster, trouble.Even, trouble.Slow}

// mustTell are the checks of doctor whose errors a program sees, too.
var mustTell = []string{"unreachable", "certificate", "password", "replica", "mode", "eviction", "save", "memory", "scripts"}

// sameError is the kind of the error that a program sees, where an examination tells more.
var sameError = map[trouble.Kind]trouble.Kind{
	trouble.LogFails: trouble.NotWriting, trouble.FullOfOurs: trouble.Full, trouble.Expired: trouble.Expired, trouble.Lost: trouble.Quarantined,
}

// fromLibrary returns what the library says about it when a program wants a lock, in the words of
// the table; "-" if the program gets its lock, or nothing can be said.
func (b *bed) fromLibrary(f *fault) string {
	b.t.Helper()
	if len(b.args) > 0 || slices.Contains([]trouble.Kind{trouble.New, trouble.NewWaits, trouble.NewIncludes}, f.kind) {
		return "-" // the program has other options, or a lock would make them vote
	}
	l, err := redlock.New(b.urls, redlock.WithTTL(maxTTL), redlock.WithMaxTTL(maxTTL), redlock.WithNodeTimeout(200*time.Millisecond))
	require.NoError(b.t, err)
	defer func() { _ = l.Close() }() // releases may be undelivered
	want := cmp.Or(sameError[f.kind], f.kind)
	said := "-"
	tell := func(err error) {
		if said == "-" && err != nil && trouble.Of(err) == want {
			said = (&redlock.NodeError{Endpoint: "it", Err: err}).Error()
			assert.Contains(b.t, said, want.Hint(), "the library's words are those of the table")
			assert.Contains(b.t, masters.Causes([]redlock.NodeStats{{Barred: err}}), want.Hint(), "and so are those of the commands")
		}
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), 5*time.Second)
	defer cancel()
	for said == "-" && clock.Sleep(ctx, clock.System(), 20*time.Millisecond) {
		for _, n := range l.Stats().Nodes {
			tell(n.Err)
			tell(n.Barred)
		}
		soon, end := context.WithTimeout(ctx, 300*time.Millisecond)
		err = l.Ready(soon)
		end()
		ready := err == nil
		if ready {
			_, err = l.TryLock(ctx, "cures")
		}
		var failure *redlock.QuorumError
		if errors.As(err, &failure) {
			for _, n := range failure.Nodes {
				tell(n.Err)
			}
		}
		if ready {
			break
		}
	}
	if row := f.kind.Row(); said == "-" && row.Severity == trouble.Error && slices.Contains(mustTell, row.Check) {
		assert.Failf(b.t, "the library does not tell", "%v %+v", err, l.Stats().Nodes)
	}
	return said
}
