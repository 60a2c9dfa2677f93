package job

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/pgroup"
	process "github.com/redquorum/redquorum/internal/proof/servers/child"
)

// runCrowd starts a command with many descendants, ends it, and says in how many nanoseconds, and
// how many it had thought. Its arguments: how many descendants, and what starts each.
func runCrowd(self *process.Self) {
	want, err := strconv.Atoi(self.Args[0])
	require.NoError(self, err)
	script := fmt.Sprintf("i=0; while [ $i -lt %d ]; do %s sleep 600 & i=$((i+1)); done; wait", want, self.Args[1])
	c, err := startChild("/bin/sh", []string{"sh", "-c", script}, os.Environ(), false)
	require.NoError(self, err)
	for n := 0; n <= want; time.Sleep(100 * time.Millisecond) {
		all, _ := pgroup.Descendants(isInherited)
		n = len(all)
	}
	time.Sleep(time.Second) // until all of them sleep
	s := &supervisor{lock: keptLock{}, command: c, clock: clock.System()}
	estimate, began := c.ending(), s.clock.Now()
	require.NoError(self, c.signal(syscall.SIGKILL))
	<-c.events()
	s.awaitGone()
	self.Tell(s.clock.Now().Sub(began).Nanoseconds(), estimate.Nanoseconds())
}

// What it costs to end a command and its descendants, in its group or in sessions of their own.
func BenchmarkEnd(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		for _, how := range []string{"", "setsid"} {
			b.Run(fmt.Sprint(n, " ", cmp.Or(how, "in the group")), func(b *testing.B) {
				var took, thought float64
				for range b.N {
					p := process.Start(b, process.Command("crowd", strconv.Itoa(n), how))
					var one, estimate float64
					_, err := fmt.Sscan(p.Next(b), &one, &estimate)
					require.NoError(b, err)
					took, thought = took+one, thought+estimate
					require.Zero(b, p.Wait(b))
				}
				b.ReportMetric(took/1e6/float64(b.N), "ms/end")
				b.ReportMetric(thought/1e6/float64(b.N), "ms/estimate")
			})
		}
	}
}
