package driver_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/history"
	"github.com/redquorum/redquorum/redlock"
)

// programs are short uses of each kind of lock. Their calls are judged as in a storm; what they do
// with what they get is up to them.
var programs = map[string]func(a *actor){
	"a mutex":          func(a *actor) { a.lives(a.acquire(a.plain(a.mutex("a", false)))) },
	"a fenced mutex":   func(a *actor) { a.lives(a.acquire(a.fenced(a.mutex("a", false)))) },
	"a set":            func(a *actor) { a.lives(a.acquire(a.plain(a.set(false)))) },
	"a fenced set":     func(a *actor) { a.lives(a.acquire(a.fenced(a.set(false)))) },
	"any":              func(a *actor) { a.lives(a.acquire(a.plain(a.choice(false)))) },
	"a reader":         func(a *actor) { a.lives(a.acquire(a.plain(a.reader("hot", false)))) },
	"a fenced reader":  func(a *actor) { a.lives(a.acquire(a.fenced(a.reader("hot", false)))) },
	"a permit":         func(a *actor) { a.lives(a.acquire(a.plain(a.permit(2, false)))) },
	"a fenced permit":  func(a *actor) { a.lives(a.acquire(a.fenced(a.permit(2, false)))) },
	"a minimum hold":   func(a *actor) { a.lives(a.acquire(a.kept())) },
	"a waiter":         func(a *actor) { a.follows(a.mutex("a", false), a.mutex("a", true)) },
	"a waiting set":    func(a *actor) { a.follows(a.mutex("hot", false), a.set(true)) },
	"a waiting choice": func(a *actor) { a.follows(a.mutex("hot", false), a.choice(true)) },
	"a writer":         func(a *actor) { a.follows(a.reader("hot", false), a.mutex("hot", true)) },
	"a waiting reader": func(a *actor) { a.follows(a.mutex("hot", false), a.reader("hot", true)) },
	"a waiting permit": func(a *actor) { a.follows(a.permit(1, false), a.permit(1, true)) },
	"an adoption": func(a *actor) {
		h := a.acquire(a.plain(a.mutex("wild0", false)))
		adopts(a)
		a.lives(h)
	},
	"an operator": func(a *actor) {
		h := a.acquire(a.plain(a.mutex("wild0", false)))
		forces(a)
		inspects(a)
		members(a)
		a.lives(h)
	},
}

// plain leaves the options as they are.
func (a *actor) plain(q *request) *request {
	q.fixed = true
	return q
}

func (a *actor) fenced(q *request) *request {
	q.fixed, q.asked.fencing, q.rounds = true, true, q.rounds+3
	q.asked.opts = append(q.asked.opts, redlock.WithFencing())
	return q
}

// lives extends, verifies and releases a lock.
func (a *actor) lives(h *handle) {
	if h == nil {
		return
	}
	a.extend(h)
	a.verify(h)
	time.Sleep(a.plan.maxTTL / 2) // it is renewed
	a.looks(h)
	a.unlock(h)
}

// follows has one lock wait behind another one.
func (a *actor) follows(first, then *request) {
	h := a.acquire(a.plain(first))
	var waiting sync.WaitGroup
	waiting.Go(func() {
		second := &actor{run: a.run, who: "second", rng: a.plan.rng("second", 0)}
		second.lives(second.acquire(second.plain(then)))
	})
	time.Sleep(50 * time.Millisecond)
	a.lives(h)
	waiting.Wait()
}

// failing is which script, or which command of one, fails at which masters.
type failing struct {
	midway bool
	nth    int
	all    bool // at all masters; otherwise at the first
}

// playFailing plays a program in which something fails, and returns how much ran at a master.
func playFailing(t *testing.T, program string, f failing) (r *run, scripts, calls int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &plan{seed: 1, masters: 3, wrong: -1, maxTTL: time.Second, script: programs[program]}
		for i := range 2 {
			p.clients = append(p.clients, p.drawClient(i, p.rng("client", 7)))
		}
		r = newRun(t, p, virtual(t, p))
		nodes := r.masters
		began := make([][2]int, len(nodes))
		inner := p.script
		p.script = func(a *actor) {
			for _, c := range r.clients {
				_ = c.life.locker.Ready(context.Background()) //nolint:errcheck // the masters are well
			}
			time.Sleep(10 * time.Millisecond)
			for i, m := range nodes {
				node := m.(*fakeMaster)
				began[i][0], began[i][1] = node.Ran()
				switch {
				case f.nth == 0 || i > 0 && !f.all:
				case f.midway:
					node.FailCall(f.nth, failures[0])
				default:
					node.FailScript(f.nth, failures[0])
				}
			}
			inner(a)
			for i, m := range nodes {
				node := m.(*fakeMaster)
				s, c := node.Ran()
				scripts, calls = max(scripts, s-began[i][0]), max(calls, c-began[i][1])
				node.FailCall(0, "")
				node.FailScript(0, "")
			}
		}
		r.play()
	})
	return r, scripts, calls
}

// Whatever script fails, before it begins or in the middle, at one master or at all: every call
// keeps its promises, and nothing is left.
func TestAnyScriptMayFail(t *testing.T) {
	for i, program := range slices.Sorted(maps.Keys(programs)) {
		t.Run(program, func(t *testing.T) {
			history.SeedRandom(t, 1)
			r, scripts, calls := playFailing(t, program, failing{})
			require.Empty(t, r.wrong, "%s", r.report())
			first, step := 1, 1
			if !thorough() { // of three scripts one, of each program another
				first, step = 1+i%3, 3
			}
			for nth := first; nth <= scripts+1; nth += step {
				failsWell(t, program, failing{nth: nth})
			}
			if !thorough() {
				return
			}
			for nth := 1; nth <= scripts+1; nth++ {
				failsWell(t, program, failing{nth: nth, all: true})
			}
			for nth := 1; nth <= calls+1; nth++ {
				failsWell(t, program, failing{midway: true, nth: nth})
				failsWell(t, program, failing{midway: true, nth: nth, all: true})
			}
		})
	}
}

// thorough reports whether to try all, where an ordinary run tries some: `make prove` does.
func thorough() bool {
	return os.Getenv("REDQUORUM_PROVE") == "1" || os.Getenv("REDQUORUM_SOAK") == "1"
}

func failsWell(t *testing.T, program string, f failing) {
	t.Helper()
	history.SeedRandom(t, 1)
	if r, _, _ := playFailing(t, program, f); len(r.wrong) > 0 {
		t.Errorf("%s", fmt.Sprintf("%+v: %s", f, r.report()))
	}
}
