package contention

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/child"
)

// Play must be the first call of TestMain. In a process that a measurement has started, it does the
// work of a worker and ends the process; in any other, it returns at once. Openers are keyed by the
// name in [Scenario.Mutex].
func Play(openers map[string]Opener) {
	roles := make(map[string]child.Role)
	for name, open := range openers {
		roles[name] = func(self *child.Self) { (&worker{self: self}).work(open) }
	}
	child.Play(roles)
}

// task is what a worker is started with, in JSON.
type task struct {
	Name  string
	Names int // followed by a number below this
	Setup Setup
}

// run is the times of a measurement: the first line of the parent, in JSON.
type run struct {
	From  Instant // when workers first ask for locks
	Begin Instant // of the window
	End   Instant // of the window, and of all waits
}

// message is a line that a worker says, in JSON. It is ready when it says an empty one.
type message struct {
	Goroutine int
	Turns     []turn  // of the goroutine, in order; more may follow
	Report    *report // the last message
}

// report is what a worker did.
type report struct {
	Turns        [][]turn `json:"-"` // by goroutine, in order
	Commands     uint64   // sent within the window
	UnlockErrors int
	UnlockError  string // the first
}

// turn is one goroutine's wait and hold.
type turn struct {
	Asked    Instant
	Acquired Instant // 0 if the measurement ended first
	Released Instant // when the release began or, if nothing was acquired, when the wait ended
}

// turnsPerLine keeps the lines of a worker short.
const turnsPerLine = 1000

// worker is one process of a measurement, seen from inside.
type worker struct {
	self  *child.Self
	task  task
	mutex Mutex
	sent  Traffic
}

func (w *worker) say(m message) {
	text, err := json.Marshal(m)
	require.NoError(w.self, err)
	w.self.Tell(string(text))
}

// openTimeout bounds connecting; many processes start at once.
const openTimeout = 30 * time.Second

func (w *worker) work(open Opener) {
	require.NoError(w.self, json.Unmarshal([]byte(w.self.Args[0]), &w.task))
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	w.task.Setup.Dial = w.sent.Dial
	mutex, err := open(ctx, w.task.Setup)
	require.NoError(w.self, err)
	w.mutex = mutex
	w.say(message{})
	var times run
	require.NoError(w.self, json.Unmarshal([]byte(<-w.self.Heard()), &times))
	r := w.contend(&times)
	require.NoError(w.self, mutex.Close())
	for goroutine, turns := range r.Turns {
		for part := range slices.Chunk(turns, turnsPerLine) {
			w.say(message{Goroutine: goroutine, Turns: part})
		}
	}
	w.say(message{Report: r})
}

// contend measures.
func (w *worker) contend(times *run) *report {
	w.sent.window(times.Begin, times.End)
	ctx, cancel := context.WithTimeout(context.Background(), times.End.Sub(now()))
	defer cancel()
	r := &report{Turns: make([][]turn, w.task.Setup.Goroutines)}
	var mu sync.Mutex // guards the unlock errors of r
	var all sync.WaitGroup
	for i := range r.Turns {
		all.Go(func() {
			sleepUntil(times.From)
			r.Turns[i] = w.takeTurns(ctx, w.name(i), func(err error) {
				mu.Lock()
				defer mu.Unlock()
				if r.UnlockErrors++; r.UnlockErrors == 1 {
					r.UnlockError = err.Error()
				}
			})
		})
	}
	all.Wait()
	r.Commands = uint64(w.sent.inWindow.Load())
	return r
}

// unlockTimeout bounds the release, which ctx does not.
const unlockTimeout = 5 * time.Second

// name returns what a goroutine wants.
func (w *worker) name(goroutine int) string {
	return fmt.Sprintf("%s/%d", w.task.Name, goroutine%w.task.Names)
}

// takeTurns locks and unlocks a name until ctx ends. A lock that fails before that ends the
// process; an unlock that fails is noted.
func (w *worker) takeTurns(ctx context.Context, name string, note func(error)) (turns []turn) {
	for ctx.Err() == nil {
		t := turn{Asked: now()}
		held, err := w.mutex.Lock(ctx, name)
		if err != nil {
			if ctx.Err() == nil {
				require.NoError(w.self, err, "lock")
			}
			t.Released = now()
			return append(turns, t)
		}
		t.Acquired = now()
		t.Released = now()
		turns = append(turns, t)
		if err := release(ctx, held); err != nil {
			note(err)
		}
	}
	return turns
}

func release(ctx context.Context, held Unlocker) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
	defer cancel()
	return held.Unlock(ctx)
}

// Traffic counts what one process sends and receives, over all its connections to servers.
type Traffic struct {
	Writes, Reads     atomic.Int64 // system calls
	Commands, Scripts atomic.Int64 // that were written; scripts are among the commands
	inWindow          atomic.Int64 // commands that were written between from and until
	from, until       atomic.Int64 // Instants; both 0 until window is called
}

// window starts counting what is written between two instants for inWindow.
func (c *Traffic) window(from, until Instant) {
	c.from.Store(int64(from))
	c.until.Store(int64(until))
}

// Reset counts from 0 again.
func (c *Traffic) Reset() {
	for _, n := range []*atomic.Int64{&c.Writes, &c.Reads, &c.Commands, &c.Scripts} {
		n.Store(0)
	}
}

// Dial is net.Dialer's DialContext with a connection that counts.
func (c *Traffic) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return counted{conn, c}, nil
}

// counted is a connection to a server that counts.
type counted struct {
	net.Conn
	traffic *Traffic
}

// Read counts after the system call.
func (c counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.traffic.Reads.Add(1)
	return n, err
}

// Write counts before the system call.
func (c counted) Write(b []byte) (int, error) {
	commands := int64(commandsIn(b))
	c.traffic.Writes.Add(1)
	c.traffic.Commands.Add(commands)
	c.traffic.Scripts.Add(int64(bytes.Count(b, []byte("\r\nEVALSHA\r\n"))))
	if from, until := c.traffic.from.Load(), c.traffic.until.Load(); until > 0 {
		if at := int64(now()); at >= from && at < until {
			c.traffic.inWindow.Add(commands)
		}
	}
	return c.Conn.Write(b)
}

// commandsIn returns how many commands begin in what a client writes. Each begins with a star at
// the start of a line, and no word of a lock has one there.
func commandsIn(written []byte) int {
	n := bytes.Count(written, []byte("\n*"))
	if bytes.HasPrefix(written, []byte("*")) {
		n++
	}
	return n
}
