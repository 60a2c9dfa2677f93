package doctor

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// durable makes a server without findings.
var durable = redistest.WithArgs("--appendonly", "yes", "--appendfsync", "always")

// consult runs doctor and returns what it found, along with the text for the same examination.
//
// Findings about slowness are left out: on a busy machine any round trip may be slow.
func consult(t *testing.T, urls []string, args ...string) (status int, d diagnosis, text string) {
	t.Helper()
	status, d = examine(t, urls, args...)
	for i := range d.Nodes {
		d.Nodes[i].Findings = slices.DeleteFunc(d.Nodes[i].Findings, func(f finding) bool { return f.Check == "slow" })
	}
	var b strings.Builder
	require.NoError(t, writeDiagnosis(&b, d))
	return status, d, b.String()
}

// examine runs doctor and returns what it found.
func examine(t *testing.T, urls []string, args ...string) (status int, d diagnosis) {
	t.Helper()
	args = append([]string{"doctor", "--json", "--nodes", strings.Join(urls, ",")}, args...)
	status, encoded, stderr := clitest.Line(clitest.Root(NewCommand()), args...)
	require.Empty(t, stderr)
	require.NoError(t, json.Unmarshal([]byte(encoded), &d), encoded)
	require.Len(t, d.Nodes, len(urls))
	return status, d
}

// requireFinding asserts that a node has this finding and the other checks, no more, and that the
// text shows it in the lines below the node.
func requireFinding(t *testing.T, d *diagnosis, text string, node int, s severity, check string, others []string, says ...string) {
	t.Helper()
	n := d.Nodes[node]
	require.ElementsMatch(t, append([]string{check}, others...), checksOf(n.Findings), "%+v", n)
	f := n.Findings[slices.Index(checksOf(n.Findings), check)]
	assert.Equal(t, s, f.Severity, "%+v", f)
	assert.NotEmpty(t, f.Why)
	assert.NotEmpty(t, f.Do)
	for _, s := range says {
		assert.Contains(t, f.What, s)
	}
	assert.Regexp(t, "(?m)^"+regexp.QuoteMeta(n.Endpoint)+" +"+regexp.QuoteMeta(count(n.Findings))+" ", text, "in the overview")
	words := strings.Join(strings.Fields(text), " ")
	begin := strings.Index(words, fmt.Sprintf("%s: %s why: %s do: %s", s, wordsOf(f.What), wordsOf(f.Why), wordsOf(f.Do)))
	require.GreaterOrEqual(t, begin, 0, "%s", text)
	above := words[:begin]
	assert.Greater(t, max(strings.LastIndex(above, n.Endpoint), strings.LastIndex(above, "Each of the masters")),
		strings.LastIndex(above, " CLOCK "), "below the name of the master: %s", text)
}

func wordsOf(text string) string { return strings.Join(strings.Fields(text), " ") }

func checksOf(findings []finding) (checks []string) {
	for _, f := range findings {
		checks = append(checks, f.Check)
	}
	return checks
}

// startDurable starts masters that vote.
func startDurable(t *testing.T, n int) []string {
	t.Helper()
	urls := clitest.URLs(redistest.Start(t, n, durable))
	clitest.Admit(t, urls...)
	return urls
}

// startMet starts a master that votes.
func startMet(t *testing.T, opts ...redistest.Option) *redistest.Server {
	t.Helper()
	s := redistest.StartOne(t, opts...)
	clitest.Admit(t, s.URL())
	return s
}

// startFor starts a durable master that votes, and returns the endpoint of a user with these
// rights.
func startFor(t *testing.T, rights ...any) string {
	t.Helper()
	s := startMet(t, durable)
	_, err := s.Do("ACL", append([]any{"SETUSER", "poor", "on", ">poverty"}, rights...)...)
	require.NoError(t, err)
	return "redis://poor:poverty@" + s.Addr()
}

func TestSoundMastersAreSafe(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 3, durable)
	clitest.Admit(t, clitest.URLs(servers)...)
	status, d, text := consult(t, clitest.URLs(servers))
	assert.Equal(t, 0, status, text)
	assert.True(t, d.Safe)
	assert.Equal(t, 3, d.Sound)
	assert.Empty(t, d.Findings)
	for _, n := range d.Nodes {
		assert.Empty(t, n.Findings)
		assert.True(t, n.Reachable)
		assert.Equal(t, "master", n.Role)
		assert.NotEmpty(t, n.Product)
		assert.NotEmpty(t, n.Version)
		assert.NotEmpty(t, n.RunID)
		assert.Positive(t, n.RoundTripMicros)
		assert.True(t, n.Votes)
		assert.Equal(t, "active", n.Memory)
		assert.Zero(t, n.BarredMillis)
	}
	for _, s := range servers {
		keys, err := s.Keys()
		require.NoError(t, err)
		assert.Empty(t, keys, "nothing but the memory marker stays")
	}
	assert.Len(t, regexp.MustCompile(`(?m)^redis://\S+  +ok  `).FindAllString(text, -1), 3, text)
	assert.Contains(t, text, "A quorum is safe: 3 of 3 masters without an error, 2 are needed.")

	_, printed, _ := clitest.Line(clitest.Root(NewCommand()), "doctor", "--nodes", strings.Join(clitest.URLs(servers), ","))
	assert.Contains(t, printed, "A quorum is safe: 3 of 3 masters without an error, 2 are needed.", "without --json")
}

// The rule in docs/operations.md grants every right that a lock needs.
func TestDocumentedRightsAreSound(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/operations.md")
	require.NoError(t, err)
	_, rule, found := strings.Cut(string(text), "```\nACL SETUSER locks ")
	require.True(t, found, "the rule has gone from docs/operations.md")
	rule, _, _ = strings.Cut(rule, "```")
	args := []any{"SETUSER", "locks"}
	for word := range strings.FieldsSeq(rule) {
		args = append(args, word)
	}
	server := startMet(t, durable)
	_, err = server.Do("ACL", args...)
	require.NoError(t, err)
	_, d, output := consult(t, []string{"redis://locks:password@" + server.Addr()})
	assert.Empty(t, d.Nodes[0].Findings, output)
}

func TestMastersWithoutPersistenceHaveANote(t *testing.T) {
	t.Parallel()
	urls := clitest.URLs(redistest.Start(t, 3))
	clitest.Admit(t, urls...)
	status, d, text := consult(t, urls)
	assert.Equal(t, 0, status, text)
	for i := range urls {
		requireFinding(t, &d, text, i, note, "persistence", nil, "no persistence: appendonly is no, and save is empty")
	}
}

// Doctor makes no new master vote: with QuarantineStrict, that is up to redlock init.
func TestDoctorLeavesANewClusterAsItIs(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 3, durable)
	status, d, text := consult(t, clitest.URLs(servers))
	assert.Equal(t, 0, status, text)
	for i, s := range servers {
		requireFinding(t, &d, text, i, note, "new", nil, "the first client makes them vote")
		assert.False(t, d.Nodes[i].Votes)
		assert.Regexp(t, "^new until ", clitest.Marker(t, s))
	}
	status, d, text = consult(t, clitest.URLs(servers), "--strict")
	assert.Equal(t, cli.ExitFailed, status, text)
	for i, s := range servers {
		requireFinding(t, &d, text, i, severe, "quarantine", nil, "redlock init")
		assert.Regexp(t, "^new until ", clitest.Marker(t, s))
	}
}

func TestANewClusterWithAMissingMasterSaysWhatToDo(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 3, durable)
	require.NoError(t, servers[2].Kill())
	status, d, text := consult(t, clitest.URLs(servers))
	assert.Equal(t, cli.ExitFailed, status, text)
	for i := range 2 {
		requireFinding(t, &d, text, i, severe, "quarantine", nil, "quarantined for another ", "redlock init")
		assert.Contains(t, d.Nodes[i].Findings[0].Do, "start the masters that are missing; or wait; or")
		assert.False(t, d.Nodes[i].Votes)
		assert.Equal(t, "new", d.Nodes[i].Memory)
		assert.Positive(t, d.Nodes[i].BarredMillis)
	}
	require.NoError(t, servers[2].Restart())
	status, _, text = consult(t, clitest.URLs(servers))
	assert.Equal(t, 0, status, text)
}

// One master restarted empty, the others did not.
func TestAMasterThatForgotIsQuarantinedForItsTime(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 3)
	clitest.Admit(t, clitest.URLs(servers)...)
	require.NoError(t, servers[2].Restart())
	_, d, text := consult(t, clitest.URLs(servers))
	requireFinding(t, &d, text, 2, severe, "quarantine", []string{"persistence"}, "quarantined for another ", "may have forgotten locks")
	assert.Regexp(t, "^wait; or, ", d.Nodes[2].Findings[0].Do)
	assert.Equal(t, []string{"persistence"}, checksOf(d.Nodes[0].Findings))
}

// Without --force, init leaves a new master alone if another one votes.
func TestANewMasterAmongOnesThatVoteNeedsForce(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 3, durable)
	urls := clitest.URLs(servers)
	clitest.Admit(t, urls[:1]...)
	_, d, text := consult(t, urls)
	assert.True(t, d.Nodes[0].Votes, text)
	for i := 1; i < 3; i++ {
		requireFinding(t, &d, text, i, severe, "quarantine", nil, "quarantined for another ", "may have forgotten locks")
		assert.Equal(t, "wait; or, only if everything that takes locks from these masters is stopped, run redlock init --force", d.Nodes[i].Findings[0].Do)
	}
}

func TestClockThatIsOffIsNamed(t *testing.T) {
	t.Parallel()
	const preload = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
	if _, err := os.Stat(preload); err != nil || runtime.GOOS != "linux" {
		t.Skipf("no %s: install libfaketime to run this test", preload)
	}
	if os.Getenv("REDQUORUM_SERVER") != "" {
		t.Skip("libfaketime is this machine's, and the chosen server may have a C library of its own")
	}
	libc, err := filepath.Glob("/lib/x86_64-linux-gnu/libc.so.6")
	require.NoError(t, err)
	redistest.Require(t)
	urls := startDurable(t, 2)
	for offset, says := range map[string]string{"-10s": "behind ours", "+10s": "ahead of ours"} {
		off := redistest.StartOne(t, durable, redistest.WithEnv("LD_PRELOAD="+strings.Join(append([]string{preload}, libc...), ":"),
			"FAKETIME="+offset, "FAKETIME_NO_CACHE=1", "DONT_FAKE_MONOTONIC=1"))
		clitest.Admit(t, off.URL())
		_, d, text := consult(t, append(urls, off.URL()))
		requireFinding(t, &d, text, 2, severe, "clock", nil, says)
		assert.InDelta(t, 10_000, max(d.Nodes[2].OffsetMillis, -d.Nodes[2].OffsetMillis), 1000)
		assert.Empty(t, d.Nodes[0].Findings)
	}
}

func TestStatusIsOneWithoutASafeQuorum(t *testing.T) {
	t.Parallel()
	urls := startDurable(t, 1) // it votes, alone
	status, d, text := consult(t, append(urls, "redis://127.0.0.1:1", "redis://127.0.0.1:2"))
	assert.Equal(t, cli.ExitFailed, status)
	assert.False(t, d.Safe)
	assert.Contains(t, text, "NO QUORUM IS SAFE: 1 of 3 masters without an error, 2 are needed.")
}
