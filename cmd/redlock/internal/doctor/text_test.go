package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
)

func sample() *diagnosis {
	persistence := finding{note, "persistence", "no persistence: appendonly is no, and save is empty", "a restart forgets all locks", "set appendonly yes"}
	away := finding{severe, "unreachable", "it does not answer: connection refused", "a master that does not answer has no vote", "check that it runs"}
	slow := finding{warning, "slow", "a round trip takes 0.5s; a lock with a TTL of 10s waits 500ms for a master, which is a long time", "late votes do not count", "move it closer"}
	return &diagnosis{
		Safe: true, Quorum: 2, Sound: 2, Findings: []finding{},
		Nodes: []nodeDiagnosis{
			{
				Endpoint: "redis://a:6379", Reachable: true, Product: "redis", Version: "8.0.2", Role: "master", UptimeSeconds: 273_600,
				RoundTripMicros: 412, OffsetMillis: 3, Findings: []finding{persistence},
			},
			{
				Endpoint: "redis://b:6379", Reachable: true, Product: "valkey", Version: "9.1.0", Role: "slave", UptimeSeconds: 3661,
				RoundTripMicros: 512_345, OffsetMillis: -12, Findings: []finding{slow, persistence},
			},
			{Endpoint: "redis://c:6379", Findings: []finding{away}},
		},
	}
}

func drawn(d *diagnosis, width int) string {
	var b strings.Builder
	for _, line := range d.lines(width) {
		b.WriteString(terminal.Line(line, unlimited, false) + "\n")
	}
	return b.String()
}

func TestDiagnosisBeginsWithAnOverviewAndTellsWhatIsSharedOnce(t *testing.T) {
	const want = `
A quorum is safe: 2 of 3 masters without an error, 2 are needed.

MASTER          FINDINGS              PING  CLOCK  SERVER               UP
redis://a:6379  1 note               412µs   +3ms  Redis 8.0.2          3d4h
redis://b:6379  1 warning, 1 note  512.3ms  -12ms  Valkey 9.1.0, slave  1h1m
redis://c:6379  1 error                  -      -  -                    -

redis://c:6379
  error: it does not answer: connection refused
    why: a master that does not answer has no vote
    do:  check that it runs

redis://b:6379
  warning: a round trip takes 0.5s; a lock with a TTL of 10s waits 500ms for a
           master, which is a long time
    why: late votes do not count
    do:  move it closer

redis://a:6379, redis://b:6379
  note: no persistence: appendonly is no, and save is empty
    why: a restart forgets all locks
    do:  set appendonly yes
`
	d := sample()
	assert.Equal(t, strings.TrimPrefix(want, "\n"), drawn(d, 80))
	for width := 50; width < 120; width++ {
		for line := range strings.Lines(drawn(d, width)) {
			assert.LessOrEqual(t, terminal.Columns(strings.TrimRight(line, "\n")), width, line)
		}
	}
	d.Nodes[2].Findings = d.Nodes[0].Findings
	assert.Contains(t, drawn(d, 80), "\n\nEach of the masters\n  note: no persistence")
}

func TestDiagnosisHasColorsOnATerminal(t *testing.T) {
	d := sample()
	var b strings.Builder
	for _, line := range d.lines(80) {
		b.WriteString(terminal.Line(line, unlimited, true) + "\n")
	}
	for _, want := range []string{"\x1b[31merror:\x1b[0m", "\x1b[33mwarning:\x1b[0m", "\x1b[31m1 error  ", "\x1b[32mA\x1b[0m \x1b[32mquorum"} {
		assert.Contains(t, b.String(), want)
	}
}

func TestAMonitorChoosesWhatFails(t *testing.T) {
	for _, c := range []struct {
		safe             bool
		errors, warnings int
		want             [3]bool // on quorum, error, warning
	}{
		{true, 0, 0, [3]bool{false, false, false}},
		{true, 0, 1, [3]bool{false, false, true}},
		{true, 1, 0, [3]bool{false, true, true}},
		{false, 2, 0, [3]bool{true, true, true}},
	} {
		d := diagnosis{Safe: c.safe, Errors: c.errors, Warnings: c.warnings}
		for i, on := range []level{failOnQuorum, failOnError, failOnWarning} {
			assert.Equal(t, c.want[i], d.fails(on), "%+v on %s", c, on)
		}
	}
}

func TestFailOnIsSeenInTheStatus(t *testing.T) {
	t.Parallel()
	urls := append(startDurable(t, 2), "redis://127.0.0.1:1")
	status, d := examine(t, urls)
	assert.Zero(t, status)
	assert.Equal(t, 1, d.Errors)
	status, _ = examine(t, urls, "--fail-on", "error")
	assert.Equal(t, cli.ExitFailed, status)
	status, _, stderr := clitest.Line(clitest.Root(NewCommand()), "doctor", "--nodes", "a:1", "--fail-on", "note")
	assert.Equal(t, cli.ExitUsage, status)
	assert.Contains(t, stderr, "not quorum, error or warning")
}

func TestUptimeIsShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		40 * time.Second: "40s", 724 * time.Second: "12m4s", 18720 * time.Second: "5h12m", 76 * time.Hour: "3d4h",
	} {
		assert.Equal(t, want, uptimeText(d))
	}
}
