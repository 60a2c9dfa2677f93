package run

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/proof/servers/child"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// cron is a machine: at each full period of its clock it runs a job of a tenth of a period, which
// notes the number of the period and REDLOCK_UNTIL. Its arguments are redlock, the period in
// milliseconds, the number of periods, and the file for the notes. The rest are flags of redlock
// run.
const cron = `redlock=$1 period=$2 left=$3 notes=$4
shift 4
seconds() { echo "$(($1 / 1000)).$(printf %03d $(($1 % 1000)))"; }
while [ "$left" -gt 0 ]; do
  now=$(($(date +%s%N) / 1000000))
  pause=$((period - now % period))
  sleep "$(seconds $pause)"
  number=$(((now + pause) / period))
  "$redlock" run --name cron --no-wait --conflict-exit-code 0 --quiet "$@" -- \
    sh -c "echo $number \$REDLOCK_UNTIL >> '$notes'; sleep $(seconds $((period / 10)))" || exit 1
  left=$((left - 1))
done`

// crons is two machines whose clocks differ, and a job that they share.
type crons struct {
	period, skew time.Duration
	periods      int
}

// run returns how often the job ran in each period, by its number, and the pauses from one
// acquisition to the next. Redlock goes by the real clock: REDLOCK_UNTIL is always as long after
// the acquisition.
func (c crons) run(t *testing.T, flags ...string) (runs map[string]int, pauses []time.Duration) {
	t.Helper()
	urls := cluster.Start(t, 1).URLs()
	notes := filepath.Join(t.TempDir(), "notes")
	var machines []*child.Process
	for _, offset := range []time.Duration{0, -c.skew} {
		machine := clitest.Command(urls)
		machine.Args = append([]string{
			"sh", "-c", cron, "cron", machine.Path, strconv.FormatInt(c.period.Milliseconds(), 10), strconv.Itoa(c.periods), notes,
		}, flags...)
		machine.Path = "/bin/sh"
		machine.Env = append(machine.Env, redistest.FakeTime(fmt.Sprintf("%+.3f", offset.Seconds()))...)
		machines = append(machines, child.Start(t, machine))
	}
	for _, machine := range machines {
		for line := range machine.Lines() { // for longer than Wait would wait
			t.Log(line)
		}
		require.Zero(t, machine.Wait(t))
	}
	text, err := os.ReadFile(notes)
	require.NoError(t, err)
	runs = map[string]int{}
	var all []time.Time
	for line := range strings.Lines(string(text)) {
		number, until, _ := strings.Cut(strings.TrimSpace(line), " ")
		at, err := time.Parse(untilLayout, until)
		require.NoError(t, err)
		runs[number]++
		all = append(all, at)
	}
	slices.SortFunc(all, time.Time.Compare) // a command may be late to note itself
	for i := range len(all) - 1 {
		pauses = append(pauses, all[i+1].Sub(all[i]))
	}
	return runs, pauses
}

// Two machines whose clocks differ, and real processes. However late a machine starts the job, that
// is not within the minimum hold. If this machine is not busy, the job runs once per period.
func TestTwoMachinesWhoseClocksDifferKeepToTheMinimumHold(t *testing.T) {
	t.Parallel()
	if redistest.FakeTime("+0") == nil {
		t.Skip("install libfaketime to run this test")
	}
	c, soak := crons{period: time.Second, skew: 300 * time.Millisecond, periods: 5}, os.Getenv("REDQUORUM_SOAK") == "1"
	if soak {
		c = crons{period: 10 * time.Second, skew: 3 * time.Second, periods: 100}
	}
	atLeast := c.period * 7 / 10
	least := atLeast - atLeast/100 - 3*time.Millisecond // the drift, and rounding
	runs, pauses := c.run(t, "--at-least", atLeast.String())
	assert.NotEmpty(t, pauses)
	for _, pause := range pauses {
		assert.GreaterOrEqual(t, pause, least)
	}
	if !soak {
		return
	}
	assert.InDelta(t, c.periods, len(runs), 3, "%v", runs)
	c.periods = 3
	_, pauses = c.run(t)
	within := 0
	for _, pause := range pauses {
		if pause < least {
			within++
		}
	}
	assert.Positive(t, within, "without --at-least, they run it twice")
}
