package run

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
)

// cron is a machine: at each full period of its clock it runs a job of a tenth of a period, which
// notes the period. Its arguments are redlock, the period in milliseconds, the number of periods,
// and the file for the notes. The rest are flags of redlock run.
const cron = `redlock=$1 period=$2 left=$3 notes=$4
shift 4
while [ "$left" -gt 0 ]; do
  now=$(($(date +%s%N) / 1000000))
  pause=$((period - now % period))
  sleep "$((pause / 1000)).$(printf %03d $((pause % 1000)))"
  number=$(((now + pause) / period))
  REDLOCK_TEST_ROLE=redlock "$redlock" run --name cron --no-wait --conflict-exit-code 0 --quiet "$@" -- \
    sh -c "echo $number >> '$notes'; sleep $((period / 10000)).$(printf %03d $((period / 10 % 1000)))" || exit 1
  left=$((left - 1))
done`

// A start that is late by less than 3 s does no harm: --at-least is over before the next start of
// the same machine.
const (
	cronPeriod  = 10 * time.Second
	cronSkew    = 3 * time.Second
	cronAtLeast = 7 * time.Second

	fakeTime = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
)

// crons runs two machines for some periods, and returns how often the job ran in each period, by
// its number. Redlock itself does not go by the clock that is faked.
func crons(t *testing.T, periods int, flags ...string) (runs map[string]int) {
	t.Helper()
	_, urls := clitest.StartServers(t, 3)
	clitest.Admit(t, urls...)
	binary, err := os.Executable()
	require.NoError(t, err)
	notes := filepath.Join(t.TempDir(), "notes")
	var machines []*exec.Cmd
	for _, offset := range []time.Duration{0, -cronSkew} {
		args := []string{"-c", cron, "cron", binary, strconv.FormatInt(cronPeriod.Milliseconds(), 10), strconv.Itoa(periods), notes}
		machine := exec.Command("sh", append(args, flags...)...)
		machine.Env = append(os.Environ(), masters.Variable+"="+strings.Join(urls, ","), "LD_PRELOAD="+fakeTime,
			fmt.Sprintf("FAKETIME=%+ds", int(offset.Seconds())), "FAKETIME_NO_CACHE=1", "DONT_FAKE_MONOTONIC=1")
		machine.Stderr = os.Stderr
		require.NoError(t, machine.Start())
		machines = append(machines, machine)
	}
	for _, machine := range machines {
		require.NoError(t, machine.Wait())
	}
	text, err := os.ReadFile(notes)
	require.NoError(t, err)
	runs = map[string]int{}
	for number := range strings.FieldsSeq(string(text)) {
		runs[number]++
	}
	return runs
}

// Two machines whose clocks are 3 s apart, and real processes. The machines may begin in different
// periods: then one of them is alone in the first, and the other in the last.
func TestTwoMachinesWhoseClocksDifferRunAJobOncePerPeriod(t *testing.T) {
	if os.Getenv("REDQUORUM_SOAK") != "1" {
		t.Skip("takes 17 minutes on a machine that is not busy: set REDQUORUM_SOAK=1")
	}
	if _, err := os.Stat(fakeTime); err != nil {
		t.Skipf("no %s: install libfaketime to run this test", fakeTime)
	}
	twice := 0
	for _, n := range crons(t, 3) {
		twice += n / 2
	}
	assert.GreaterOrEqual(t, twice, 2, "without --at-least, they run it twice")
	runs := crons(t, 100, "--at-least", cronAtLeast.String())
	assert.InDelta(t, 100, len(runs), 1)
	for number, n := range runs {
		assert.Equal(t, 1, n, "period %s", number)
	}
}
