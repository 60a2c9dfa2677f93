package job

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/redlock"
)

// scene is a supervisor with a scripted lock and command, in virtual time.
type scene struct {
	s       *supervisor
	lock    *playedLock
	command *playedCommand
	signals chan os.Signal
	stderr  *bytes.Buffer
	begin   clock.Instant
	status  chan int
}

// playScene plays a scene with a TTL of 12 s: SIGTERM 2.25 s before the end, SIGKILL 0.25 s before
// it.
func playScene(t *testing.T, f func(*scene), change ...func(*scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.New()
		sc := &scene{
			lock:    &playedLock{clock: clk, until: clk.Now().Add(12 * time.Second), done: make(chan struct{})},
			command: &playedCommand{clock: clk, begin: clk.Now(), changes: make(chan childEvent)},
			signals: make(chan os.Signal), stderr: &bytes.Buffer{}, begin: clk.Now(), status: make(chan int, 1),
		}
		sc.s = &supervisor{
			lock: sc.lock, command: sc.command, grace: NewGrace(12*time.Second, 2*time.Second), clock: clk, signals: sc.signals,
			messages: Messages{W: sc.stderr, Name: "x"},
		}
		for _, c := range change {
			c(sc)
		}
		go func() { sc.status <- sc.s.supervise() }()
		synctest.Wait()
		f(sc)
	})
}

// after lets time pass.
func (sc *scene) after(d time.Duration) {
	time.Sleep(d) // virtual
	synctest.Wait()
}

// exits ends the command and returns the exit status.
func (sc *scene) exits(status int) int {
	sc.command.changes <- childEvent{exited: true, status: status}
	return <-sc.status
}

// want asserts which signals the command got so far, as "15@9.75s".
func (sc *scene) want(t *testing.T, want ...string) {
	t.Helper()
	sc.command.mu.Lock()
	defer sc.command.mu.Unlock()
	if !slices.Equal(sc.command.sent, want) {
		t.Errorf("the command was sent %q, want %q", sc.command.sent, want)
	}
}

type playedLock struct {
	clock clock.Clock
	mu    sync.Mutex // guards the fields below
	until clock.Instant
	err   error
	done  chan struct{}
}

func (l *playedLock) Remaining() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := l.until.Sub(l.clock.Now())
	if l.err != nil {
		return min(left, 0)
	}
	return left
}

func (l *playedLock) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil && l.until.Sub(l.clock.Now()) <= 0 {
		return redlock.ErrLost
	}
	return l.err
}

func (l *playedLock) Done() <-chan struct{} { return l.done }

func (l *playedLock) renew(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = l.clock.Now().Add(d)
}

func (l *playedLock) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = redlock.ErrLost
	close(l.done)
}

type playedCommand struct {
	clock   clock.Clock
	begin   clock.Instant
	changes chan childEvent
	mu      sync.Mutex // guards the fields below
	sent    []string
	err     error // of signal
	rest    bool  // others of the group still run
}

func (c *playedCommand) events() <-chan childEvent { return c.changes }

func (c *playedCommand) gone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.rest
}

func (c *playedCommand) leave(rest bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest = rest
}

func (c *playedCommand) signal(s syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = append(c.sent, s.String()+"@"+c.clock.Now().Sub(c.begin).String())
	return c.err
}

func TestRenewedLockLeavesTheCommandAlone(t *testing.T) {
	playScene(t, func(sc *scene) {
		for range 10 {
			sc.after(4 * time.Second)
			sc.lock.renew(12 * time.Second)
		}
		sc.want(t)
		if status := sc.exits(3); status != 3 || sc.stderr.Len() > 0 {
			t.Errorf("got status %d and %q, want 3 and silence", status, sc.stderr)
		}
		sc.want(t)
	})
}

func TestLockThatIsNotRenewedEndsTheCommandBeforeItself(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.after(4 * time.Second)
		sc.lock.renew(12 * time.Second) // at 4 s, until 16 s
		sc.after(11900 * time.Millisecond)
		sc.want(t, "terminated@13.75s", "killed@15.75s")
		if status := sc.exits(cli.ExitSignal + 9); status != cli.ExitLost {
			t.Errorf("got status %d, want %d", status, cli.ExitLost)
		}
		if lines := strings.Count(sc.stderr.String(), "\n"); lines != 1 || !strings.Contains(sc.stderr.String(), `lock "x" ends in 2.25s and could not be renewed; the command gets SIGTERM now and SIGKILL in 2s`) {
			t.Errorf("got %q, want one line that says why", sc.stderr)
		}
	})
}

func TestCommandThatHeedsSIGTERMIsNotKilledButItsGroupIs(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.after(10 * time.Second)
		if status := sc.exits(0); status != cli.ExitLost {
			t.Errorf("got status %d, want %d: it did not end by itself", status, cli.ExitLost)
		}
		sc.want(t, "terminated@9.75s", "killed@10s")
	})
}

// Renewed at the last moment: SIGTERM cannot be taken back, but nothing rushes the command any
// more.
func TestRenewalAfterSIGTERMGivesTheCommandTimeToEnd(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.after(11 * time.Second)
		sc.lock.renew(12 * time.Second) // until 23 s
		sc.after(9 * time.Second)
		sc.want(t, "terminated@9.75s")
		sc.after(2900 * time.Millisecond) // it hangs, and the lock ends
		sc.want(t, "terminated@9.75s", "killed@22.75s")
		if status := sc.exits(137); status != cli.ExitLost {
			t.Errorf("got status %d, want %d", status, cli.ExitLost)
		}
	})
}

func TestLockThatAQuorumDisownsKillsAtOnce(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.after(time.Second)
		sc.lock.lose()
		synctest.Wait()
		sc.want(t, "killed@1s")
		if status := sc.exits(137); status != cli.ExitLost || !strings.Contains(sc.stderr.String(), "is lost") {
			t.Errorf("got status %d and %q, want %d and a reason", status, sc.stderr, cli.ExitLost)
		}
	})
}

// When several events are due, they come in any order. The command ran past the end of the lock in
// any case.
func TestStatusIsLostWhenTheLockEndedBeforeTheCommand(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.lock.mu.Lock()
		// As after a long stop, before any timer has fired.
		sc.lock.until = sc.begin.Add(-time.Second)
		sc.lock.mu.Unlock()
		if status := sc.exits(0); status != cli.ExitLost || !strings.Contains(sc.stderr.String(), "before the command had ended") {
			t.Errorf("got status %d and %q, want %d and a line", status, sc.stderr, cli.ExitLost)
		}
	})
}

func TestSignalsGoToTheCommandAndItsStatusStays(t *testing.T) {
	playScene(t, func(sc *scene) {
		for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
			sc.signals <- s
			synctest.Wait()
		}
		sc.want(t, "interrupt@0s", "terminated@0s", "hangup@0s")
		sc.after(3 * time.Second) // it takes its time, and the lock is not lost meanwhile
		if status := sc.exits(cli.ExitSignal + 15); status != cli.ExitSignal+15 || sc.stderr.Len() > 0 {
			t.Errorf("got status %d and %q, want that of the command, and silence", status, sc.stderr)
		}
	})
}

func TestCommandThatCannotBeSignalledIsReported(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.after(9800 * time.Millisecond)
		if status := sc.exits(0); status != cli.ExitLost || !strings.Contains(sc.stderr.String(), "cannot send terminated to the command: operation not permitted") {
			t.Errorf("got status %d and %q, want %d and why nothing was sent", status, sc.stderr, cli.ExitLost)
		}
	}, func(sc *scene) { sc.command.err = errors.New("operation not permitted") })
}

// stuckWriter is a stderr that nobody reads.
type stuckWriter struct{ release chan struct{} }

func (w stuckWriter) Write([]byte) (int, error) {
	<-w.release
	return 0, io.ErrClosedPipe
}

func TestStderrThatNobodyReadsDelaysNoSignalAndNoExit(t *testing.T) {
	var stuck stuckWriter
	playScene(t, func(sc *scene) {
		sc.after(11900 * time.Millisecond)
		sc.want(t, "terminated@9.75s", "killed@11.75s")
		if status := sc.exits(137); status != cli.ExitLost {
			t.Errorf("got status %d, want %d", status, cli.ExitLost)
		}
		close(stuck.release)
	}, func(sc *scene) {
		stuck.release = make(chan struct{}) // of the bubble
		sc.s.messages.W = NewOutbox(stuck, sc.s.clock, sc.s.messages.Dropped)
	})
}

func TestMaxHoldIsNamedAsTheReason(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.after(10 * time.Second)
		if status := sc.exits(143); status != cli.ExitLost || !strings.Contains(sc.stderr.String(), "after --max-hold") {
			t.Errorf("got status %d and %q, want %d and --max-hold", status, sc.stderr, cli.ExitLost)
		}
	}, func(sc *scene) { sc.s.holdEnds = sc.begin.Add(12 * time.Second) })
}

// Without alarms, a nap is the bound.
func TestCommandIsKilledWithinANapAfterTheMachineSlept(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.after(5500 * time.Millisecond)
		sc.s.clock.(*clocktest.Clock).Suspend(time.Hour)
		sc.after(clock.MaxNap)
		sc.want(t, "killed@1h0m6s")
		if status := sc.exits(137); status != cli.ExitLost {
			t.Errorf("got status %d, want %d", status, cli.ExitLost)
		}
	})
}
