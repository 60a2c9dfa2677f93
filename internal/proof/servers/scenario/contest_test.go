package scenario_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/child"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// contenderTTL is that of the processes that contend. It is short, so that what a dead one held
// expires soon.
const contenderTTL = 2 * time.Second

// playContender waits for a lock, says that it has it, and releases it when it is told something.
// Its arguments are the name and the masters. What it is told while it waits makes it give up.
func playContender(self *child.Self) {
	l := childLocker(self, self.Args[1:], redlock.WithTTL(contenderTTL))
	patient, stop := context.WithCancel(ctx)
	go func() {
		<-self.Heard()
		stop()
	}()
	lock, err := l.Lock(patient, self.Args[0])
	if err != nil {
		require.ErrorIs(self, err, context.Canceled)
		self.Tell("gave up")
		return
	}
	self.Tell("holds")
	<-patient.Done()
	require.NoError(self, lock.Unlock(ctx))
	self.Tell("released")
}

// harms are what happens to the process that is next in line, and how it goes on.
var harms = map[string]struct {
	harm, mend func(p *child.Process) error
	says       []string // one of these, in the end
}{
	"killed":   {harm: (*child.Process).Kill},
	"stopped":  {harm: (*child.Process).Stop, mend: (*child.Process).Continue, says: []string{"holds"}},
	"gives up": {harm: func(p *child.Process) error { return p.Tell("give up") }, says: []string{"gave up", "holds"}}, // it may have come too late
}

// Whatever becomes of the waiter that is next in line, the one behind it gets the lock, and nobody
// has it beside another.
func TestNobodyIsStuckWhenOthersAreKilledOrStoppedOrGiveUp(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, 5)
	l := connected(t, c.URLs())
	for what, next := range harms {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			name := cluster.LockName(t)
			lock := take(t, l, name)
			first := child.Start(t, child.Command("contender", on(c, name)...))
			await(t, "the first is in line", func() bool { return c.Waiting(t, name) == 1 })
			got := inBackground(t, func() (*redlock.Lock, error) { return l.Lock(t.Context(), name) })
			await(t, "the second is behind it", func() bool { return c.Waiting(t, name) == 2 })
			must(t, next.harm(first))
			give(t, lock)
			second := <-got
			require.NotNil(t, second)
			if next.mend != nil {
				must(t, next.mend(first))
				await(t, "it waits again", func() bool { return c.Waiting(t, name) == 1 })
				require.NoError(t, second.Verify(t.Context()), "it has been handed nothing")
			}
			give(t, second)
			if next.says != nil {
				assert.Contains(t, next.says, first.Next(t))
			}
		})
	}
}
