package doctor

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/internal/trouble"
)

// durable makes a server without findings.
var durable = redistest.WithArgs("--appendonly", "yes", "--appendfsync", "always", "--aof-load-truncated", "no")

// away are endpoints of nobody.
const away, awayToo = "redis://127.0.0.1:1", "redis://127.0.0.1:2"

// startMet starts masters that vote.
func startMet(t *testing.T, n int, opts ...redistest.Option) ([]*redistest.Server, []string) {
	t.Helper()
	servers := redistest.Start(t, n, opts...)
	urls := clitest.URLs(servers)
	clitest.Admit(t, urls...)
	return servers, urls
}

// consult runs doctor and returns what it found, along with the text for the same examination.
//
// Findings about slowness are left out: on a busy machine any round trip may be slow.
func consult(t *testing.T, urls []string, args ...string) (status int, d diagnosis, text string) {
	t.Helper()
	status, d = examine(t, urls, args...)
	for i := range d.Nodes {
		d.Nodes[i].Findings = slices.DeleteFunc(d.Nodes[i].Findings, func(f finding) bool { return f.Check == "slow" })
	}
	return status, d, drawn(&d, 80, false)
}

// examine runs doctor and returns what it found.
func examine(t *testing.T, urls []string, args ...string) (status int, d diagnosis) {
	t.Helper()
	status, encoded, stderr := command(urls, append(args, "--json")...)
	require.Empty(t, stderr)
	require.NoError(t, json.Unmarshal([]byte(encoded), &d), encoded)
	require.GreaterOrEqual(t, len(d.Nodes), len(urls), "and members that the list lacks")
	return status, d
}

// command runs a command line.
func command(urls []string, args ...string) (status int, stdout, stderr string) {
	return clitest.Line(clitest.Root(NewCommand()), append([]string{"doctor", "--nodes", strings.Join(urls, ",")}, args...)...)
}

// requireFinding asserts that a node has this finding and the other checks, no more, and that the
// text shows it in the lines below the node.
func requireFinding(t *testing.T, d *diagnosis, text string, node int, s trouble.Severity, check string, others []string, says ...string) {
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

func TestSoundMastersAreSafe(t *testing.T) {
	t.Parallel()
	servers, urls := startMet(t, 3, durable)
	status, d, text := consult(t, urls)
	assert.Equal(t, 0, status, text)
	assert.True(t, d.Safe)
	assert.Equal(t, 3, d.Sound)
	assert.Equal(t, []finding{}, d.Findings, "for a jq of .findings[]")
	for i, n := range d.Nodes {
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
		keys, err := servers[i].Keys()
		require.NoError(t, err)
		assert.Empty(t, keys, "nothing but the memory marker stays")
	}
	assert.Len(t, regexp.MustCompile(`(?m)^redis://\S+  +ok  `).FindAllString(text, -1), 3, text)
	const verdict = "A quorum is safe: 3 of 3 masters without an error, 2 are needed."
	assert.Contains(t, text, verdict)
	_, printed, _ := command(urls)
	assert.Contains(t, printed, verdict, "without --json")

	require.NoError(t, servers[2].Kill())
	status, d = examine(t, urls)
	assert.Zero(t, status)
	assert.Equal(t, 1, d.Errors)
	status, _ = examine(t, urls, "--fail-on", "error")
	assert.Equal(t, cli.ExitFailed, status)
	status, d, text = consult(t, []string{urls[0], away, awayToo})
	assert.Equal(t, cli.ExitFailed, status)
	assert.False(t, d.Safe)
	assert.Contains(t, text, "NO QUORUM IS SAFE: 0 of 3 masters without an error, 2 are needed.")
}

// Doctor makes no new master vote: with QuarantineStrict, that is up to redlock init. Without
// --force, init leaves a new master alone if another one votes.
func TestDoctorLeavesNewMastersAsTheyAreAndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	servers := redistest.Start(t, 3, durable)
	urls := clitest.URLs(servers)
	require.NoError(t, servers[2].Kill())
	status, d, text := consult(t, urls)
	assert.Equal(t, cli.ExitFailed, status, text)
	for i := range 2 {
		requireFinding(t, &d, text, i, trouble.Error, "quarantine", nil, "a new cluster begins when all of its masters are there")
		assert.Contains(t, d.Nodes[i].Findings[0].Do, "start the masters that are missing, or leave")
		assert.False(t, d.Nodes[i].Votes)
		assert.Equal(t, "new", d.Nodes[i].Memory)
		assert.Positive(t, d.Nodes[i].BarredMillis)
	}
	require.NoError(t, servers[2].Restart())
	status, d, text = consult(t, urls)
	assert.Equal(t, 0, status, text)
	for i := range servers {
		requireFinding(t, &d, text, i, trouble.Note, "new", nil, "the first client makes them vote")
		assert.False(t, d.Nodes[i].Votes)
	}
	status, d, text = consult(t, urls, "--strict")
	assert.Equal(t, cli.ExitFailed, status, text)
	for i, s := range servers {
		requireFinding(t, &d, text, i, trouble.Error, "quarantine", nil, "redlock init")
		keys, err := s.Keys()
		require.NoError(t, err)
		assert.Empty(t, keys)
	}

	clitest.Admit(t, urls[0])
	_, d, text = consult(t, urls)
	assert.True(t, d.Nodes[0].Votes, text)
	for i := 1; i < 3; i++ {
		requireFinding(t, &d, text, i, trouble.Error, "member", nil, "not a member of the cluster: it is new")
		assert.Equal(t, []string{"redlock members add " + urls[i] + " --nodes LIST"}, d.Nodes[i].Findings[0].Commands)
	}
}

// Then one restarts empty, the others do not.
func TestMastersWithoutPersistenceHaveANote(t *testing.T) {
	t.Parallel()
	servers, urls := startMet(t, 3)
	status, d, text := consult(t, urls)
	assert.Equal(t, 0, status, text)
	for i := range urls {
		requireFinding(t, &d, text, i, trouble.Note, "persistence", nil, "no persistence: appendonly is no, and save is empty")
	}
	require.NoError(t, servers[2].Restart())
	_, d, text = consult(t, urls)
	requireFinding(t, &d, text, 2, trouble.Error, "quarantine", []string{"persistence"}, "quarantined for another ", "may have forgotten locks")
	assert.Equal(t, []string{"redlock init --force --nodes LIST"}, d.Nodes[2].Findings[0].Commands)
	assert.Equal(t, []string{"persistence"}, checksOf(d.Nodes[0].Findings))
}

func TestWrongFlagsOfDoctorAreUsageErrors(t *testing.T) {
	for _, c := range []struct{ flag, value, says string }{
		{"--name", "redquorum:memory", "reserved"},
		{"--name", "", "--name is empty"},
		{"--name", strings.Repeat("x", 5000), "name has 5000 bytes"},
		{"--ttl", "61s", "above the --max-ttl of 1m0s"},
		{"--ttl", "999ms", "below 1s"},
		{"--fail-on", "note", "not quorum, error or warning"},
	} {
		status, _, stderr := command([]string{away}, c.flag, c.value)
		assert.Equal(t, cli.ExitUsage, status)
		assert.Contains(t, stderr, c.says)
	}
}

// It examines the members that the list lacks, and counts by the members.
func TestDoctorComparesTheListWithTheMembers(t *testing.T) {
	t.Parallel()
	_, urls := startMet(t, 3, durable)
	listed := []string{urls[0], urls[1], away}
	status, d, text := consult(t, listed)
	assert.Zero(t, status, text)
	assert.Equal(t, 3, d.Sound)
	assert.Equal(t, 3, d.Members)
	assert.NotEmpty(t, d.Cluster)
	assert.Equal(t, int64(1), d.Version)
	require.Len(t, d.Nodes, 4)
	assert.Equal(t, urls[2], d.Nodes[3].Endpoint)
	assert.Equal(t, []string{"list", "list"}, checksOf(d.Findings))
	assert.Contains(t, d.Findings[0].What, urls[2]+" is a member")
	assert.Contains(t, d.Findings[1].What, away+" does not answer, and no member has this endpoint")
	assert.Contains(t, wordsOf(text), "A quorum is safe: 3 of 3 masters without an error, 2 are needed.")
	status, _ = examine(t, listed, "--fail-on", "error")
	assert.Equal(t, cli.ExitFailed, status)

	// One of three is not enough to know that it is the cluster.
	status, d, text = consult(t, urls[:1])
	assert.Equal(t, cli.ExitFailed, status, text)
	requireFinding(t, &d, text, 0, trouble.Error, "cluster", nil, "no majority of cluster ", "it takes 2 of its 3 members: also list ", urls[1], urls[2])
}
