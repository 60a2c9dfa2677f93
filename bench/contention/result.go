package contention

import (
	"cmp"
	"fmt"
	"slices"
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

	// Waits are the times from asking to having, sorted. A wait that the end of the window cut off
	// counts with its length so far, so a goroutine that never gets the name shows.
	Waits []time.Duration

	Commands uint64 // sent by all clients to all servers

	// MinProcessShare is the acquisitions of the process that had the fewest, divided by an equal
	// share: 1 is fair, 0 is none at all.
	MinProcessShare float64

	UnlockErrors int    // warm-up included
	UnlockError  string // one of them
}

func newResult(reports []*report, times *run, names int) (*Result, error) {
	r := &Result{Window: times.End.Sub(times.Begin)}
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
		if err := checkExclusion(holds); err != nil {
			return nil, err
		}
		r.addChanges(holds, times)
	}
	if r.Acquisitions > 0 {
		r.MinProcessShare = float64(slices.Min(shares)) * float64(len(shares)) / float64(r.Acquisitions)
	}
	slices.Sort(r.Waits)
	return r, nil
}

func (r *Result) addCounts(report *report) {
	r.Commands += report.Commands
	r.UnlockErrors += report.UnlockErrors
	if report.UnlockErrors > 0 {
		r.UnlockError = report.UnlockError
	}
}

// addWait adds the wait of a turn, and reports whether the name was acquired within the window.
func (r *Result) addWait(t turn, times *run) bool {
	switch {
	case t.Acquired == 0 || t.Acquired >= times.End:
		if t.Asked < times.End {
			r.Waits = append(r.Waits, times.End.Sub(t.Asked))
		}
		return false
	case t.Acquired < times.Begin:
		return false
	}
	r.Waits = append(r.Waits, t.Acquired.Sub(t.Asked))
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
		if next.holder != sorted[i-1].holder {
			r.GoroutineChanges++
		}
	}
}

// interval is a turn in which a goroutine of a process had the name.
type interval struct {
	turn
	holder [2]int
}

// checkExclusion returns an error if two held a name at once.
func checkExclusion(all []interval) error {
	var holds []*history.Hold
	for _, i := range all {
		holds = append(holds, &history.Hold{
			Who: fmt.Sprint("goroutine ", i.holder), Names: []string{"the name"},
			Since: clock.Instant(i.Asked), From: clock.Instant(i.Acquired), To: clock.Instant(i.Released),
		})
	}
	for _, violation := range history.All(history.Judge(holds, false)) {
		return fmt.Errorf("contention: exclusion failed: %v", violation)
	}
	return nil
}
