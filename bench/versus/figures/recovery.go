package figures

import (
	"math"
	"slices"
)

// Recovery is what each peer did in every moment of the same course through faults.
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

// Course is what one peer did in each of its runs.
type Course struct {
	Peer string `json:"peer"`
	Runs []Run  `json:"runs"` // all of the same length
}

// Run is what a peer did, moment by moment.
type Run struct {
	Locks []float64 `json:"locks"` // per second
	Waits []float64 `json:"waits"` // ms: the longest that ended in the moment or went on behind it
}

// Middle has the medians of all runs, by moment.
func (c *Course) Middle() (m Run) {
	for i := range c.Runs[0].Locks {
		m.Locks = append(m.Locks, c.median(func(r *Run) float64 { return r.Locks[i] }))
		m.Waits = append(m.Waits, c.median(func(r *Run) float64 { return r.Waits[i] }))
	}
	return m
}

func (c *Course) median(of func(r *Run) float64) float64 {
	var values []float64
	for i := range c.Runs {
		values = append(values, of(&c.Runs[i]))
	}
	return Median(values)
}

// Of returns the locks per second in a phase, and the longest wait in ms: the medians of all runs.
func (c *Course) Of(p Phase, step float64) (locks, wait float64) {
	from := int(math.Round(p.From / step))
	to := min(int(math.Round(p.To/step)), len(c.Runs[0].Locks))
	if from >= to {
		return 0, 0
	}
	locks = c.median(func(r *Run) (sum float64) {
		for _, perSecond := range r.Locks[from:to] {
			sum += perSecond
		}
		return sum / float64(to-from)
	})
	return locks, c.median(func(r *Run) float64 { return slices.Max(r.Waits[from:to]) })
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
func ReadRecovery(path string) (*Recovery, error) { return read(path, new(Recovery)) }

// Write writes the recovery to a file.
func (r *Recovery) Write(path string) error {
	return write(path, r, `"setup":`, `"phases":`, `{"title":`, `"courses":`, `{"peer":`, `{"locks":`, `"waits":`)
}
