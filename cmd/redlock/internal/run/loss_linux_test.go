package run

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// beating is a redlock that holds a lock for a command that ignores SIGTERM and writes the time
// into a file.
type beating struct {
	*clitest.Redlock
	name, pulse string
	ttl         time.Duration
	pid         int // of the command
}

func startBeat(t *testing.T, urls []string, name string, ttl time.Duration) *beating {
	t.Helper()
	b := &beating{name: name, ttl: ttl, pulse: filepath.Join(t.TempDir(), "pulse")}
	b.Redlock = clitest.Start(t, urls, line(name, "--wait 1m --ttl "+b.ttl.String(), clitest.As("beat", b.pulse, "10ms")...)...)
	clitest.WaitFor(t, "the command runs", func() bool {
		var err error
		b.pid, _, err = readBeat(b.pulse)
		return err == nil
	})
	return b
}

// last returns when the last beat came.
func (b *beating) last(t *testing.T) time.Time {
	t.Helper()
	_, last, err := readBeat(b.pulse)
	require.NoError(t, err)
	return time.Unix(0, last)
}

// requireHandover runs a second redlock. It must get the lock, and only after the first command is
// gone.
func (b *beating) requireHandover(t *testing.T, urls []string) {
	t.Helper()
	args := line(b.name, patient+"--ttl "+lossTTL.String(), clitest.As("witness", b.pulse)...)
	status, _, stderr := run(t, urls, args...)
	require.Equal(t, 0, status, "the command of the first holder must be gone: %s", stderr)
}

// cuttings are ways to cut a holder off from a master. The first ends: what was sent meanwhile
// arrives, as at a master that was stopped and continues.
var cuttings = []struct {
	name string
	cut  func(*redistest.Proxy)
	ends bool
}{
	{"hold requests for a while", func(p *redistest.Proxy) { p.Hold(redistest.Requests, true) }, true},
	// Renewals arrive, and nobody learns of it.
	{"hold replies", func(p *redistest.Proxy) { p.Hold(redistest.Replies, true) }, false},
	{"drop", func(p *redistest.Proxy) { p.Drop(redistest.Both, true) }, false},
	{"refuse", func(p *redistest.Proxy) {
		p.Refuse(true)
		p.Reset()
	}, false},
}

// First the command is gone, then the validity ends, then the masters forget. At various moments of
// the third of the TTL between two renewals.
func TestCommandIsGoneBeforeAnotherCanGetTheLock(t *testing.T) {
	t.Parallel()
	tries := len(cuttings)
	if os.Getenv("REDQUORUM_SOAK") == "1" {
		tries = 50
	}
	c := cluster.Start(t, 5)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range tries {
		how, majority := cuttings[i%len(cuttings)], random.Perm(5)[:3+random.IntN(3)]
		moment := time.Duration(i) * lossTTL / 3 / time.Duration(tries)
		endsAfter := lossTTL/2 + time.Duration(random.Int64N(int64(lossTTL*5/8))) // around its end
		t.Run(fmt.Sprintf("%d %s after %v %v", i, how.name, moment.Round(time.Millisecond), majority), func(t *testing.T) {
			t.Parallel()
			proxies, urls := c.BehindProxies(t)
			b := startBeat(t, urls, fmt.Sprint("cut ", i), lossTTL)
			time.Sleep(moment)
			for _, m := range majority {
				how.cut(proxies[m])
			}
			if how.ends {
				time.Sleep(endsAfter)
				for _, m := range majority {
					proxies[m].Heal()
				}
				if !dead(b.pid)() { // it still has the lock, or is being killed now
					require.NoError(t, b.Kill())
					b.requireHandover(t, c.URLs())
					return
				}
			}
			b.requireHandover(t, c.URLs())
			status, stderr := b.End(t)
			require.Equal(t, cli.ExitLost, status)
			require.Equal(t, 1, strings.Count(withoutVotes(stderr), "\n"), "one line: %s", stderr)
			// The others on a machine so busy that redlock wakes up late.
			require.Regexp(t, "could not be renewed; the command gets SIG(TERM now and SIGKILL in |KILL)|is lost: ", stderr)
		})
	}
}

func TestKilledRedlockTakesItsCommandAlongAndTheNextWaitsForTheTTL(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	b := startBeat(t, c.URLs(), "x", shortTTL)
	require.NoError(t, b.Kill())
	clitest.WaitFor(t, "the command dies", dead(b.pid))
	last := b.last(t)
	status, _, stderr := run(t, c.URLs(), line("x", "--no-wait", "true")...)
	// The last renewal is little more than a third of the TTL ago.
	if time.Since(last) < shortTTL/3 {
		assert.Equal(t, cli.ExitTaken, status, stderr)
	}
	b.requireHandover(t, c.URLs())
	assert.Greater(t, time.Since(last), shortTTL/2, "not before the rest of the TTL")
}

func TestStoppedRedlockKillsItsCommandWhenItContinues(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	b := startBeat(t, c.URLs(), "x", shortTTL)
	require.NoError(t, b.Stop())
	// Another client has the lock, so the TTL has passed. The first command still runs: nobody
	// could end it.
	status, _, stderr := run(t, c.URLs(), line("x", patient, "true")...)
	require.Equal(t, 0, status, stderr)
	require.False(t, dead(b.pid)())
	require.NoError(t, b.Continue())
	status, stderr = b.End(t)
	assert.Equal(t, cli.ExitLost, status)
	assert.True(t, dead(b.pid)())
	assert.Contains(t, stderr, "the command gets SIGKILL")
}

// The masters gave the lock to somebody else before the command had ended, and its release is the
// first to notice.
func TestALossThatTheReleaseNoticesHasItsStatus(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 1)
	r := hold(t, c.URLs(), "x", "--quiet --ttl 1m")
	require.NoError(t, admin.Of(cluster.NewConnected(t, c.URLs())).ForceUnlock(t.Context(), "x"))
	other := hold(t, c.URLs(), "x", "--no-wait")
	require.NoError(t, r.CloseInput())
	status, stderr := r.End(t)
	assert.Equal(t, cli.ExitLost, status)
	assert.Regexp(t, `lock "x" was no longer ours when it was released, at some moment after 2\d{3}-\S+: `, stderr)
	release(t, other)
}
