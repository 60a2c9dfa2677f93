package contention

import "time"

// specVariable is the environment variable that makes a program a worker. Its value is a spec in
// JSON.
const specVariable = "REDQUORUM_CONTENTION"

// spec is what a worker is started with.
type spec struct {
	Mutex      string // its name in the table of openers
	Addresses  []string
	Name       string
	Goroutines int
	Permits    int
	Reads      float64
	Hold       time.Duration
	TTL        time.Duration
	Patience   time.Duration
	Forever    bool // one goroutine locks once, and holds until the process is killed
}

// order is what the parent sends to a worker through its standard input, by gob.
type order struct {
	Run   *run // once
	Count bool // answer with a count; with Forever only
}

// run is the times of a measurement.
type run struct {
	From  Instant // when workers first ask for locks
	Begin Instant // of the window
	End   Instant // of the window, and of all waits
}

// message is what a worker sends to its parent through its standard output, by gob. One of its
// fields is set.
type message struct {
	Ready   bool    // it is connected
	Held    Instant // with Forever: since when it has held the name
	Count   *count  // with Forever
	Report  *report // the last message
	Failure string  // likewise
}

// count is how many commands a worker has sent so far.
type count struct {
	At   Instant
	Sent uint64
}

// report is what a worker did.
type report struct {
	Turns        [][]turn // by goroutine, in order
	Commands     uint64   // sent within the window
	UnlockErrors int
	UnlockError  string            // the first
	Counters     map[string]uint64 // their growth within the window
}

// turn is one goroutine's wait and hold.
type turn struct {
	Read     bool
	Asked    Instant
	Acquired Instant // 0 if the measurement ended first
	Released Instant // when the release began or, if nothing was acquired, when the wait ended
}
