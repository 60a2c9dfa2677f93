package versus

import (
	"flag"
	"runtime"
	"time"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/bench/versus/figures"
)

var (
	figuresFile   = flag.String("figures", "", "the file that TestFigures writes; without it, TestFigures measures too little to be of use")
	figuresRounds = flag.Int("figures.rounds", 5, "rounds of TestFigures, and of what takes long 3 at most; an odd number gives a median that was measured")
	figuresSlice  = flag.Duration("figures.slice", 200*time.Millisecond, "how long each peer has in a round of TestFigures; for what needs many samples, 4 times as long")
	figuresHold   = flag.Duration("figures.hold", 10*time.Second, "how long TestFigures holds locks in a round; they are renewed every 10s")
)

// plan is the size of TestFigures.
type plan struct {
	rounds     int           // of what takes a moment
	longRounds int           // of what takes seconds
	slice      time.Duration // of a peer in a round
	goroutines []int
	nodes      []int
	states     []string
	contenders []string
	scenario   contention.Scenario // without its Mutex and Servers
	locks      []int               // held at once
	ttl        time.Duration       // of those locks
	hold       time.Duration
}

// longSlices is how many slices a sample takes from which percentiles are read.
const longSlices = 4

// fullPlan is the plan that the flags ask for.
func fullPlan() *plan {
	p := &plan{
		rounds:     *figuresRounds,
		longRounds: min(*figuresRounds, 3),
		slice:      *figuresSlice,
		goroutines: []int{1, 4, 16, 64, 256, 1024},
		nodes:      []int{3, 5, 7, 9},
		states:     states(),
		scenario: contention.Scenario{
			Processes: 8, Goroutines: 8, TTL: 10 * time.Second,
			WarmUp: *figuresSlice, Window: longSlices * *figuresSlice,
		},
		locks: []int{1000, 10_000, 100_000},
		ttl:   30 * time.Second,
		hold:  *figuresHold,
	}
	for _, c := range contenders {
		p.contenders = append(p.contenders, c.name)
	}
	return p
}

// states are those that this system can bring about: only Linux stops servers.
func states() []string {
	if runtime.GOOS != "linux" {
		return []string{figures.Healthy, figures.Late, figures.BlackHole}
	}
	return []string{figures.Healthy, figures.Late, figures.Stopped, figures.BlackHole}
}

// smallPlan does everything once, as briefly as it goes.
func smallPlan() *plan {
	return &plan{
		rounds:     1,
		longRounds: 1,
		slice:      5 * time.Millisecond,
		goroutines: []int{1, 4},
		nodes:      []int{3},
		states:     states(),
		contenders: []string{"redquorum"},
		scenario: contention.Scenario{
			Processes: 2, Goroutines: 1, TTL: 10 * time.Second,
			WarmUp: 50 * time.Millisecond, Window: 100 * time.Millisecond,
		},
		locks: []int{100},
		ttl:   30 * time.Second,
		hold:  100 * time.Millisecond,
	}
}
