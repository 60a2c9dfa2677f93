package redlock_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Small histories are played one at a time in a process and on one processor, so that the seed
// decides all but what the runtime draws. Processes beside each other use more processors.

// shareVariable makes a process play a share of the histories.
const shareVariable = "REDQUORUM_SHARE"

// mostMemory is what a process may use without garbage collection: many times what a history takes
// in which nobody waits for ever.
const mostMemory = 512 << 20

// share is every step-th history of a series.
type share struct {
	Base        uint64 // the first seed
	First, Step int
	Count       int    // of the whole series
	Told        string // the file for the outcome
}

// outcome is what happened in many histories.
type outcome struct {
	Faults  int64
	Tenures int
	Failed  []failed
}

// failed is a history that failed.
type failed struct {
	Seed  uint64
	Wrong string
}

func (o *outcome) add(other outcome) {
	o.Faults += other.Faults
	o.Tenures += other.Tenures
	o.Failed = append(o.Failed, other.Failed...)
}

// play plays a share in this process.
func (s share) play(t *testing.T) (all outcome) {
	defer repeatably()()
	for i := s.First; i < s.Count; i += s.Step {
		h := newPlan(s.Base + uint64(i)).play(t)
		all.Faults += h.injected.Load()
		all.Tenures += h.tenures
		if len(h.wrong) > 0 {
			all.Failed = append(all.Failed, failed{h.plan.seed, strings.Join(h.wrong, "\n")})
		}
	}
	return all
}

// playApart plays a series in as many processes as there are processors.
func playApart(t *testing.T, base uint64, count int) (all outcome) {
	var running sync.WaitGroup
	outcomes := make([]outcome, runtime.NumCPU())
	for i := range outcomes {
		s := share{Base: base, First: i, Step: len(outcomes), Count: count, Told: filepath.Join(t.TempDir(), fmt.Sprint(i))}
		running.Go(func() { outcomes[i] = s.playApart(t) })
	}
	running.Wait()
	for _, one := range outcomes {
		all.add(one)
	}
	return all
}

// playApart plays a share in a process of its own.
func (s share) playApart(t *testing.T) (told outcome) {
	text, err := json.Marshal(s)
	if !assert.NoError(t, err) {
		return told
	}
	//nolint:gosec // this program itself
	child := exec.CommandContext(t.Context(), os.Args[0],
		"-test.run=^"+t.Name()+"$", "-test.timeout="+flag.Lookup("test.timeout").Value.String())
	stacks := "GODEBUG=adaptivestackstart=1," + os.Getenv("GODEBUG") // a tenth less time
	child.Env = append(os.Environ(), shareVariable+"="+string(text), stacks)
	if said, err := child.CombinedOutput(); !assert.NoError(t, err, "%s", said) {
		return told
	}
	text, err = os.ReadFile(s.Told)
	if assert.NoError(t, err) {
		assert.NoError(t, json.Unmarshal(text, &told))
	}
	return told
}

// playShare plays the share that another process asks for.
func playShare(t *testing.T, text string) {
	var s share
	require.NoError(t, json.Unmarshal([]byte(text), &s))
	told, err := json.Marshal(s.play(t))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.Told, told, 0o600))
}

// repeatably makes what follows as repeatable as the runtime allows. One goroutine runs at a time,
// unless the race detector is to see them run side by side. The garbage collector and the scheduler
// preempt goroutines at any place, so garbage is only collected between histories (see
// [plan.play]), and a goroutine that always gives way shows the scheduler, which preempts whoever
// has run for 10 ms, that the others take turns. (Those that wake each other share one turn.)
func repeatably() (undo func()) {
	if raced {
		percent := debug.SetGCPercent(400) // histories leave nothing behind
		return func() { debug.SetGCPercent(percent) }
	}
	processors, percent, limit := runtime.GOMAXPROCS(1), debug.SetGCPercent(-1), debug.SetMemoryLimit(mostMemory)
	var turning sync.WaitGroup
	over := make(chan struct{})
	turning.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
				runtime.Gosched()
			}
		}
	})
	return func() {
		close(over)
		turning.Wait()
		runtime.GOMAXPROCS(processors)
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
}
