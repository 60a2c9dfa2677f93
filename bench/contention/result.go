package contention

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/proof/history"
)

// Result is what a measurement found, of all names together. Everything is about its window unless
// it says otherwise.
type Result struct {
	Window       time.Duration
	Acquisitions int

	// GoroutineChanges are acquisitions by a different goroutine than the previous one, in any
	// process.
	GoroutineChanges int

	// Waits are the times from asking to having, sorted; ReadWaits those for shared locks. A wait
	// that the end of the window cut off counts with its length so far, so a goroutine that never
	// gets the name shows. Unfinished counts these.
	Waits, ReadWaits []time.Duration
	Unfinished       int

	// Gaps are the times from when a holder began to release the name until the next one had it,
	// sorted. There are none if several may hold the name at once.
	Gaps []time.Duration

	Commands uint64 // sent by all clients to all servers

	// MinProcessShare is the acquisitions of the process that had the fewest, divided by an equal
	// share: 1 is fair, 0 is none at all.
	MinProcessShare float64

	Counters     map[string]uint64 // of the implementation, summed over all processes
	UnlockErrors int               // warm-up included
	UnlockError  string            // one of them
	KeysLeft     int               // on the servers after all processes have ended
}

func newResult(reports []*report, times *run, permits, names int) (*Result, error) {
	r := &Result{Window: times.End.Sub(times.Begin), Counters: make(map[string]uint64)}
	shares := make([]int, len(reports)) // acquisitions by process
	all := make([][]interval, names)
	for process, report := range reports {
		r.addCounts(report)
		for goroutine, turns := range report.Turns {
			for _, t := range turns {
				if t.Acquired != 0 {
					name := goroutine % names
					all[name] = append(all[name], interval{t, [2]int{process, goroutine}})
				}
				if r.addWait(t, times) {
					shares[process]++
				}
			}
		}
	}
	for _, holds := range all {
		slices.SortFunc(holds, func(a, b interval) int {
			return cmp.Or(cmp.Compare(a.Acquired, b.Acquired), cmp.Compare(a.Released, b.Released))
		})
		if err := checkExclusion(holds, permits); err != nil {
			return nil, err
		}
		r.addChanges(holds, times)
	}
	if permits > 1 || len(r.ReadWaits) > 0 {
		r.Gaps = nil
	}
	if r.Acquisitions > 0 {
		r.MinProcessShare = float64(slices.Min(shares)) * float64(len(shares)) / float64(r.Acquisitions)
	}
	slices.Sort(r.Waits)
	slices.Sort(r.ReadWaits)
	slices.Sort(r.Gaps)
	return r, nil
}

func (r *Result) addCounts(report *report) {
	r.Commands += report.Commands
	for name, n := range report.Counters {
		r.Counters[name] += n
	}
	r.UnlockErrors += report.UnlockErrors
	if report.UnlockErrors > 0 {
		r.UnlockError = report.UnlockError
	}
}

// addWait adds the wait of a turn, and reports whether the name was acquired within the window.
func (r *Result) addWait(t turn, times *run) bool {
	waits := &r.Waits
	if t.Read {
		waits = &r.ReadWaits
	}
	switch {
	case t.Acquired == 0 || t.Acquired >= times.End:
		if t.Asked < times.End {
			*waits = append(*waits, times.End.Sub(t.Asked))
			r.Unfinished++
		}
		return false
	case t.Acquired < times.Begin:
		return false
	}
	*waits = append(*waits, t.Acquired.Sub(t.Asked))
	r.Acquisitions++
	return true
}

// addChanges looks at each acquisition of a name within the window and the previous one, which may
// belong to the warm-up.
func (r *Result) addChanges(sorted []interval, times *run) {
	for i, next := range sorted {
		if i == 0 || next.Acquired < times.Begin || next.Acquired >= times.End {
			continue
		}
		before := sorted[i-1]
		r.Gaps = append(r.Gaps, next.Acquired.Sub(before.Released))
		if next.holder != before.holder {
			r.GoroutineChanges++
		}
	}
}

// interval is a turn in which a goroutine of a process had the name.
type interval struct {
	turn
	holder [2]int
}

// checkExclusion returns an error if more than permits held a name at once, or anybody beside a
// writer.
func checkExclusion(all []interval, permits int) error {
	var holds []*history.Hold
	for _, i := range all {
		h := &history.Hold{
			Who: fmt.Sprint("goroutine ", i.holder), Names: []string{"the name"}, Shared: i.Read,
			Since: clock.Instant(i.Asked), From: clock.Instant(i.Acquired), To: clock.Instant(i.Released),
		}
		if permits > 1 {
			h.Names, h.Permits = []string{"the name#"}, permits // whichever slot it was
		}
		holds = append(holds, h)
	}
	for _, violation := range history.All(history.Judge(holds, false)) {
		if !strings.HasSuffix(violation.Name, "#") {
			return fmt.Errorf("contention: exclusion failed: %v", violation)
		}
	}
	return nil
}
