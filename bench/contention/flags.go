package contention

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Flags says what to measure.
type Flags struct {
	Processes  Sizes         // -contention.processes
	Goroutines Sizes         // -contention.goroutines, of each process
	Hold       time.Duration // -contention.hold
	TTL        time.Duration // -contention.ttl
	WarmUp     time.Duration // -contention.warmup
	Window     time.Duration // -contention.window
}

// NewFlags defines the flags in a flag set.
func NewFlags(set *flag.FlagSet) *Flags {
	f := &Flags{Processes: Sizes{1, 2, 8, 16}, Goroutines: Sizes{1, 8}}
	set.Var(&f.Processes, "contention.processes", "how many processes want the name, separated by commas")
	set.Var(&f.Goroutines, "contention.goroutines", "how many goroutines of each process want it, separated by commas")
	set.DurationVar(&f.Hold, "contention.hold", 0, "how long each holds it")
	set.DurationVar(&f.TTL, "contention.ttl", 10*time.Second, "time to live of the lock")
	set.DurationVar(&f.WarmUp, "contention.warmup", 500*time.Millisecond, "how long they run before the window")
	set.DurationVar(&f.Window, "contention.window", 2*time.Second, "how long to measure")
	return f
}

// Sizes is a list of positive numbers, as a flag.
type Sizes []int

// String returns the numbers, separated by commas.
func (s *Sizes) String() string {
	var words []string
	for _, n := range *s {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ",")
}

// Set reads numbers that are separated by commas.
func (s *Sizes) Set(text string) error {
	var sizes Sizes
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return fmt.Errorf("%q is not a positive number", word)
		}
		sizes = append(sizes, n)
	}
	*s = sizes
	return nil
}
