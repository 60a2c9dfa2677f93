//go:build linux

package scenario_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
)

// These tell a worker process what to do.
const (
	workerJob   = "REDQUORUM_TEST_WORKER_JOB" // pop, run, or once and where to halt
	workerName  = "REDQUORUM_TEST_WORKER_NAME"
	workerNodes = "REDQUORUM_TEST_WORKER_NODES"
	workerStore = "REDQUORUM_TEST_WORKER_STORE"
	workerHalt  = "REDQUORUM_TEST_WORKER_HALT"
)

const (
	workerTTL     = time.Second
	workerLease   = 3 * time.Second
	workerThreads = 4
	workerBatch   = 5
)

// process is a worker in another process.
type process struct {
	t       *testing.T
	command *exec.Cmd
	in      io.WriteCloser
	lines   chan string // what it says; closed when it has ended
	harmed  bool        // it was killed or stopped
}

// startWorker starts this test again in another process.
func startWorker(t *testing.T, s *shop, name, job, halt string) *process {
	t.Helper()
	root, _, _ := strings.Cut(t.Name(), "/")
	command := exec.Command(os.Args[0], "-test.run=^"+root+"$", "-test.timeout=5m")
	command.Env = append(os.Environ(), workerJob+"="+job, workerName+"="+name, workerNodes+"="+strings.Join(s.URLs(), ","),
		workerStore+"="+s.store.URL(), workerHalt+"="+halt)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	require.NoError(t, err)
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	p := &process{t: t, command: command, in: in, lines: make(chan string, 1<<16)}
	go func() {
		defer close(p.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = command.Process.Kill() //nolint:errcheck // it may have ended
		for range p.lines {
		}
		_ = command.Wait() //nolint:errcheck // killed, or asked about by the test
	})
	return p
}

func (p *process) signal(sig os.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.command.Process.Signal(sig))
	p.harmed = true
}

// next returns what the process says next.
func (p *process) next() string {
	p.t.Helper()
	select {
	case line, ok := <-p.lines:
		require.True(p.t, ok, "the process has ended")
		return line
	case <-time.After(20 * time.Second):
		require.FailNow(p.t, "the process says nothing")
		return ""
	}
}

// goOn lets a worker continue, or end.
func (p *process) goOn() {
	p.t.Helper()
	require.NoError(p.t, p.in.Close())
}

// tell writes a line at once, so that it survives the death of this process and does not mix with
// others.
func tell(words ...any) {
	_, err := os.Stdout.WriteString(fmt.Sprintln(words...))
	if err != nil {
		panic(err)
	}
}

// runWorker is the other process, until its input ends.
func runWorker(t *testing.T) {
	l, err := redlock.New(strings.Split(os.Getenv(workerNodes), ","), redlock.WithTTL(workerTTL), redlock.WithNodeTimeout(workerTTL/4))
	require.NoError(t, err)
	defer l.Close()
	halt := newHalt(t)
	q, err := queue.New(l, os.Getenv(workerStore), os.Getenv(workerName), queue.WithTimeout(20*time.Second),
		queue.WithPool(pool.WithDialer(halt.dial), pool.WithStallTimeout(time.Minute), pool.WithIdlePing(time.Minute)))
	require.NoError(t, err)
	defer q.Close()
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) //nolint:errcheck // it ends
		close(halt.over)
		if os.Getenv(workerJob) != "once" {
			cancel()
		}
	}()
	switch os.Getenv(workerJob) {
	case "once":
		require.NoError(t, halt.warm(ctx, q))
		popOnce(ctx, q, 0)
	case "pop":
		var all sync.WaitGroup
		for worker := range workerThreads {
			all.Go(func() {
				for ctx.Err() == nil {
					if !popOnce(ctx, q, worker) {
						time.Sleep(5 * time.Millisecond)
					}
				}
			})
		}
		all.Wait()
	case "run":
		assert.NoError(t, q.Run(ctx, func(_ context.Context, task queue.Task) error {
			time.Sleep(time.Duration(len(task.ID)%3) * time.Millisecond)
			if strings.HasSuffix(task.ID, "7") && time.Now().UnixNano()%2 == 0 {
				return io.ErrUnexpectedEOF
			}
			tell("popped", time.Now().UnixMilli(), task.ID+"="+strconv.FormatFloat(task.Score, 'f', 6, 64))
			return nil
		}, queue.WithConcurrency(workerThreads), queue.WithLease(workerLease), queue.WithRetryDelay(50*time.Millisecond)))
	}
	tell("end")
}

// popOnce pops, prints the tasks, and reports whether there were any.
func popOnce(ctx context.Context, q *queue.Queue, worker int) bool {
	tasks, err := q.Pop(ctx, workerBatch)
	words := []any{"popped", worker}
	if err != nil {
		if ctx.Err() != nil {
			return false
		}
		tell("error", worker, strings.ReplaceAll(err.Error(), "\n", " "))
		words[0] = "doubt"
	}
	for _, task := range tasks {
		words = append(words, task.ID+"="+strconv.FormatFloat(task.Score, 'f', 6, 64))
	}
	tell(words...)
	return len(tasks) > 0
}

// halt stops the process at one of its messages to the store: at "before 2" the second script is
// about to be sent, at "after 2" its reply is there and not yet read. The process says so, and
// continues when its input ends.
type halt struct {
	before, after int64
	sent          atomic.Int64
	armed         atomic.Bool
	over          chan struct{}
}

func newHalt(t *testing.T) *halt {
	h := &halt{over: make(chan struct{})}
	when, number, found := strings.Cut(os.Getenv(workerHalt), " ")
	if !found {
		return h
	}
	n, err := strconv.ParseInt(number, 10, 64)
	require.NoError(t, err)
	if when == "before" {
		h.before = n
	} else {
		h.after = n
	}
	return h
}

// warm connects to the store and loads the scripts.
func (h *halt) warm(ctx context.Context, q *queue.Queue) error {
	if _, err := q.Top(ctx, 1); err != nil {
		return err
	}
	h.armed.Store(true)
	return nil
}

func (h *halt) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &haltingConn{conn, h}, nil
}

type haltingConn struct {
	net.Conn
	halt *halt
}

func (c *haltingConn) Write(p []byte) (int, error) {
	if h := c.halt; h.armed.Load() && bytes.Contains(p, []byte("EVALSHA")) && h.sent.Add(1) == h.before {
		tell("at", os.Getenv(workerHalt))
		<-h.over
	}
	return c.Conn.Write(p)
}

func (c *haltingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if h := c.halt; h.armed.Load() && h.after != 0 && h.sent.Load() == h.after {
		h.sent.Add(1000)
		tell("at", os.Getenv(workerHalt))
		<-h.over
	}
	return n, err
}

// writeLate is another process that holds a lock. When its input ends, it writes without a look at
// the lock.
func writeLate(t *testing.T) {
	l, err := redlock.New(strings.Split(os.Getenv(workerNodes), ","), redlock.WithTTL(workerTTL), redlock.WithNodeTimeout(workerTTL/4), redlock.WithFencing())
	require.NoError(t, err)
	defer l.Close()
	lock, err := l.Lock(t.Context(), os.Getenv(workerName))
	require.NoError(t, err)
	conn, err := redis.DialURL(os.Getenv(workerStore))
	require.NoError(t, err)
	defer conn.Close()
	tell("fence", lock.Fence())
	_, err = io.Copy(io.Discard, os.Stdin)
	require.NoError(t, err)
	reply, err := conn.Do("EVAL", documentedScript(t), 2, "data", "fence:data", lock.Fence(), "late")
	tell("wrote", reply, err)
}
