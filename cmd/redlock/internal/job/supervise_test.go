package job

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/clock/clocktest"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/redlock"
)

// scene is a supervisor with a scripted lock and command, in virtual time.
type scene struct {
	t       *testing.T
	s       *supervisor
	lock    *playedLock
	command *playedCommand
	signals chan os.Signal
	stderr  *said
	begin   clock.Instant
	status  chan int
}

// said is a stderr that may be read while it is written.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// playScene plays a scene with a TTL of 12 s: SIGTERM 2.25 s before the end, SIGKILL 0.25 s before
// it.
func playScene(t *testing.T, f func(*scene), change ...func(*scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.New()
		sc := &scene{
			t:       t,
			lock:    &playedLock{clock: clk, until: clk.Now().Add(12 * time.Second), done: make(chan struct{})},
			command: &playedCommand{clock: clk, begin: clk.Now(), changes: make(chan childEvent)},
			signals: make(chan os.Signal), stderr: &said{}, begin: clk.Now(), status: make(chan int, 1),
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

func killRest(sc *scene) { sc.s.killRest = true }

// after lets time pass.
func (sc *scene) after(d time.Duration) {
	time.Sleep(d) // virtual
	synctest.Wait()
}

// exits ends the command and all of its group.
func (sc *scene) exits(status int) {
	sc.command.changes <- childEvent{exited: true, status: status}
	synctest.Wait()
}

// leaves ends the command itself while others of its group run.
func (sc *scene) leaves(status int) {
	sc.command.leave(true)
	sc.exits(status)
}

// sent asserts which signals the command got so far, as "terminated@9.75s".
func (sc *scene) sent(want ...string) {
	sc.t.Helper()
	sc.command.mu.Lock()
	defer sc.command.mu.Unlock()
	assert.Equal(sc.t, want, sc.command.sent)
}

// held asserts that the supervisor is still working.
func (sc *scene) held() {
	sc.t.Helper()
	assert.Empty(sc.t, sc.status, "the supervisor has returned")
}

// over asserts that the supervisor soon notices the end, what it returns, and what it has said.
func (sc *scene) over(status int, says string) {
	sc.t.Helper()
	sc.after(max(restLongest, goneBound))
	require.NotEmpty(sc.t, sc.status, "the supervisor has not noticed")
	assert.Equal(sc.t, status, <-sc.status)
	assert.Contains(sc.t, sc.stderr.String(), says)
	assert.Equal(sc.t, says == "", sc.stderr.String() == "", sc.stderr)
}

// restOver ends what the command has left running; see over.
func (sc *scene) restOver(status int, says string) {
	sc.t.Helper()
	sc.command.leave(false)
	sc.over(status, says)
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

// expire ends the lock a second ago, as after a long stop, before any timer has fired.
func (l *playedLock) expire() { l.renew(-time.Second) }

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
	err     error         // of signal
	rest    bool          // others of the group still run
	cost    time.Duration // of ending it
	sweeps  int
}

func (c *playedCommand) events() <-chan childEvent { return c.changes }

func (c *playedCommand) gone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.rest
}

func (*playedCommand) left() string { return ": process 7 (left)" }

func (c *playedCommand) sweep() { c.sweeps++ }

func (c *playedCommand) ending() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cost
}

func (c *playedCommand) grow(cost time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cost = cost
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

func TestLockThatIsNotRenewedEndsTheCommandBeforeItself(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.after(4 * time.Second)
		sc.lock.renew(12 * time.Second) // at 4 s, until 16 s
		sc.after(11900 * time.Millisecond)
		sc.sent("terminated@13.75s", "killed@15.75s")
		sc.exits(cli.ExitSignal + 9)
		sc.over(cli.ExitLost, `lock "x" ends in 2.25s and could not be renewed; the command gets SIGTERM now and SIGKILL in 2s`)
		assert.Equal(t, 1, strings.Count(sc.stderr.String(), "\n"), "lines")
	})
}

func TestCommandThatHeedsSIGTERMIsNotKilledButItsGroupIs(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.after(10 * time.Second)
		sc.exits(0)
		sc.over(cli.ExitLost, "SIGTERM now") // it did not end by itself
		sc.sent("terminated@9.75s", "killed@10s")
	})
}

// A shell ends at once, and what it waited for has its time: that of the message.
func TestWhatIsLeftOfACommandThatHeedsSIGTERMHasTheTimeToHeedItToo(t *testing.T) {
	for _, flags := range []func(*scene){func(*scene) {}, killRest} {
		playScene(t, func(sc *scene) {
			sc.after(9800 * time.Millisecond)
			sc.leaves(143)
			sc.after(1800 * time.Millisecond)
			sc.sent("terminated@9.75s")
			sc.held()
			sc.restOver(cli.ExitLost, "the command gets SIGTERM now and SIGKILL in 2s")
			sc.sent("terminated@9.75s")
		}, flags)
		playScene(t, func(sc *scene) { // it does not
			sc.after(9800 * time.Millisecond)
			sc.leaves(143)
			sc.after(2 * time.Second)
			sc.sent("terminated@9.75s", "killed@11.75s")
			sc.restOver(cli.ExitLost, "SIGTERM now")
		}, flags)
	}
}

// Renewed at the last moment: SIGTERM cannot be taken back, but nothing rushes the command any
// more.
func TestRenewalAfterSIGTERMGivesTheCommandTimeToEnd(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.after(11 * time.Second)
		sc.lock.renew(12 * time.Second) // until 23 s
		sc.after(9 * time.Second)
		sc.sent("terminated@9.75s")
		sc.after(2900 * time.Millisecond) // it hangs, and the lock ends
		sc.sent("terminated@9.75s", "killed@22.75s")
		sc.exits(137)
		sc.over(cli.ExitLost, "SIGTERM now")
	})
}

func TestLockThatAQuorumDisownsKillsAtOnce(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.after(time.Second)
		sc.lock.lose()
		synctest.Wait()
		sc.sent("killed@1s")
		sc.exits(137)
		sc.over(cli.ExitLost, "is lost")
	})
}

// It takes the kernel a while to end thousands of processes.
func TestACommandOfManyProcessesIsKilledEarlier(t *testing.T) {
	const says = `lock "x" ends in 3.25s and could not be renewed; the command gets SIGTERM now and SIGKILL in 2s`
	playScene(t, func(sc *scene) {
		sc.after(11900 * time.Millisecond)
		sc.sent("terminated@8.75s", "killed@10.75s")
		sc.exits(cli.ExitSignal + 9)
		sc.over(cli.ExitLost, says)
	}, func(sc *scene) { sc.command.cost = time.Second })
	playScene(t, func(sc *scene) { // they have come since the command began
		sc.after(4 * time.Second)
		sc.lock.renew(12 * time.Second)
		sc.command.grow(time.Second)
		sc.after(11900 * time.Millisecond)
		sc.sent("terminated@12.75s", "killed@14.75s")
		sc.exits(cli.ExitSignal + 9)
		sc.over(cli.ExitLost, says)
	})
	playScene(t, func(sc *scene) { // a sixth of the TTL earlier at most
		sc.after(11900 * time.Millisecond)
		sc.sent("terminated@7.75s", "killed@9.75s")
		sc.exits(cli.ExitSignal + 9)
		sc.over(cli.ExitLost, "ends in 4.25s")
	}, func(sc *scene) { sc.command.cost = time.Minute })
}

// Another user's, for example.
func TestTheLockIsHeldForWhatCannotBeEndedAsLongAsItIsValid(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.after(10 * time.Second) // SIGTERM was sent
		sc.lock.renew(12 * time.Second)
		sc.leaves(0)
		sc.after(11900 * time.Millisecond)
		sc.held()
		sc.sent("terminated@9.75s", "killed@12s", "killed@21.75s")
		sc.restOver(cli.ExitLost, "SIGTERM now")
		assert.NotContains(t, sc.stderr.String(), "runs on")
	})
	playScene(t, func(sc *scene) { // the started process heeds SIGKILL only
		sc.after(11800 * time.Millisecond)
		sc.lock.renew(12 * time.Second)
		sc.leaves(137)
		sc.after(goneBound + time.Second)
		sc.held()
		sc.restOver(cli.ExitLost, "SIGTERM now")
	})
	playScene(t, func(sc *scene) {
		sc.after(10 * time.Second)
		sc.lock.renew(12 * time.Second)
		sc.leaves(0)
		sc.after(12 * time.Second)
		sc.over(cli.ExitLost, `does not end, and runs on without lock "x"`)
		assert.Positive(t, sc.command.sweeps)
	})
}

func TestSignalsGoToTheCommandAndItsStatusStays(t *testing.T) {
	playScene(t, func(sc *scene) {
		for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
			sc.signals <- s
			synctest.Wait()
		}
		sc.sent("interrupt@0s", "terminated@0s", "hangup@0s")
		sc.after(3 * time.Second) // it takes its time, and the lock is not lost meanwhile
		sc.exits(cli.ExitSignal + 15)
		sc.over(cli.ExitSignal+15, "")
	})
}

func TestCommandThatCannotBeSignalledIsReported(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.after(9800 * time.Millisecond)
		sc.exits(0)
		assert.Equal(t, cli.ExitLost, <-sc.status)
		assert.Contains(t, sc.stderr.String(), "cannot send terminated to the command: operation not permitted")
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
		sc.sent("terminated@9.75s", "killed@11.75s")
		sc.exits(137)
		sc.over(cli.ExitLost, "")
		close(stuck.release)
	}, func(sc *scene) {
		stuck.release = make(chan struct{}) // of the bubble
		sc.s.messages.W = NewOutbox(stuck, sc.s.clock, sc.s.messages.Dropped)
	})
}

func TestMaxHoldIsNamedAsTheReason(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.after(10 * time.Second)
		sc.exits(143)
		sc.over(cli.ExitLost, "after --max-hold")
	}, func(sc *scene) { sc.s.holdEnds = sc.begin.Add(12 * time.Second) })
}

// Without alarms, a nap is the bound.
func TestCommandIsKilledWithinANapAfterTheMachineSlept(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.after(5500 * time.Millisecond)
		sc.s.clock.(*clocktest.Clock).Suspend(time.Hour)
		sc.after(clock.MaxNap)
		sc.sent("killed@1h0m5.875s")
		sc.exits(137)
		sc.over(cli.ExitLost, "SIGKILL")
	})
}
