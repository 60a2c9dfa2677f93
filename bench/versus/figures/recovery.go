package figures

import (
	"fmt"
	"math"
	"slices"
)

// Recovery is one run through faults: what each peer did in every moment of the same course.
type Recovery struct {
	Environment Environment `json:"environment"`
	Setup       string      `json:"setup"` // as a sentence without its full stop
	Step        float64     `json:"step"`  // the length of a moment, in seconds
	Phases      []Phase     `json:"phases"`
	Courses     []Course    `json:"courses"`
}

// Phase is a part of the course.
type Phase struct {
	Title string  `json:"title"` // what is wrong; Calm if nothing is
	From  float64 `json:"from"`  // in seconds
	To    float64 `json:"to"`
}

// Calm is the title of phases without a fault.
const Calm = "calm"

// Course is what one peer did, moment by moment.
type Course struct {
	Peer  string    `json:"peer"`
	Locks []float64 `json:"locks"` // per second
	Waits []float64 `json:"waits"` // ms: the longest that ended in the moment or went on behind it
}

// Of returns the locks per second in a phase, and the longest wait in ms.
func (c *Course) Of(p Phase, step float64) (locks, wait float64) {
	from := int(math.Round(p.From / step))
	to := min(int(math.Round(p.To/step)), len(c.Locks))
	if from >= to {
		return 0, 0
	}
	for _, perSecond := range c.Locks[from:to] {
		locks += perSecond
	}
	return locks / float64(to-from), slices.Max(c.Waits[from:to])
}

// Rounded returns values with the digits that figures keep.
func Rounded(values []float64) []float64 {
	rounded := make([]float64, len(values))
	for i, value := range values {
		rounded[i] = round(value)
	}
	return rounded
}

// ReadRecovery reads a file that [Recovery.Write] wrote.
func ReadRecovery(path string) (*Recovery, error) {
	r, err := read(path, new(Recovery))
	if err != nil {
		return nil, err
	}
	for _, c := range r.Courses {
		if r.Step <= 0 || len(c.Locks) == 0 || len(c.Waits) != len(c.Locks) {
			return nil, fmt.Errorf("%s: %s has %d and %d moments of %v s", path, c.Peer, len(c.Locks), len(c.Waits), r.Step)
		}
	}
	return r, nil
}

// Write writes the recovery to a file.
func (r *Recovery) Write(path string) error {
	return write(path, r, `"setup":`, `"phases":`, `{"title":`, `"courses":`, `{"peer":`, `"waits":`)
}
