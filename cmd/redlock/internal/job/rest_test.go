package job

import (
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
)

// leaves ends the command itself while others of its group run.
func (sc *scene) leaves(status int) {
	sc.command.leave(true)
	sc.command.changes <- childEvent{exited: true, status: status}
	synctest.Wait()
}

// wantHeld asserts that the supervisor is still working.
func (sc *scene) wantHeld(t *testing.T) {
	t.Helper()
	select {
	case status := <-sc.status:
		t.Fatalf("the supervisor has returned %d", status)
	default:
	}
}

// wantOver ends the rest, and asserts that the supervisor soon notices and returns a status.
func (sc *scene) wantOver(t *testing.T, want int) {
	t.Helper()
	sc.command.leave(false)
	sc.after(restLongest)
	select {
	case status := <-sc.status:
		if status != want {
			t.Errorf("got status %d, want %d", status, want)
		}
	default:
		t.Fatalf("the supervisor has not noticed within %v", restLongest)
	}
}

func TestLockIsHeldForWhatTheCommandLeavesRunning(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.leaves(3)
		for range 5 {
			sc.after(4 * time.Second)
			sc.lock.renew(12 * time.Second)
			sc.wantHeld(t)
		}
		sc.want(t)
		sc.wantOver(t, 3)
		if got := sc.stderr.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `lock "x" is held until what it left running has ended`) {
			t.Errorf("got %q, want one line that says why", got)
		}
	})
}

func TestShortRestIsNotWorthALine(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.leaves(0)
		sc.after(restTold - restLongest)
		sc.wantOver(t, 0)
		if sc.stderr.Len() > 0 {
			t.Errorf("got %q, want silence", sc.stderr)
		}
	})
}

func TestRestIsKilledOnDemand(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.leaves(4)
		sc.want(t, "terminated@0s")
		sc.after(2900 * time.Millisecond)
		sc.wantHeld(t) // SIGKILL takes time as well
		sc.want(t, "terminated@0s", "killed@2s")
		sc.wantOver(t, 4)
		if sc.stderr.Len() > 0 {
			t.Errorf("got %q, want silence", sc.stderr)
		}
	}, func(sc *scene) { sc.s.killRest = true })
	playScene(t, func(sc *scene) { // without a grace
		sc.leaves(4)
		sc.after(time.Nanosecond) // a timer that is due at once
		sc.want(t, "terminated@0s", "killed@1ns")
		sc.wantOver(t, 4)
	}, func(sc *scene) { sc.s.killRest, sc.s.grace.killAfter = true, 0 })
}

func TestRestThatCannotBeKilledIsReported(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.leaves(4)
		sc.after(9 * time.Second)
		sc.wantHeld(t)
		sc.want(t, "terminated@0s", "killed@2s")
		sc.wantOver(t, 4)
		if got := sc.stderr.String(); got != "redlock: what the command left running does not end; lock \"x\" is held until it does\n" {
			t.Errorf("got %q, want one line that says what it waits for", got)
		}
	}, func(sc *scene) { sc.s.killRest = true })
}

func TestCommandThatLeavesNothingRunningIsNotWaitedFor(t *testing.T) {
	playScene(t, func(sc *scene) {
		if status := sc.exits(6); status != 6 {
			t.Errorf("got status %d, want 6", status)
		}
		sc.want(t)
	}, func(sc *scene) { sc.s.killRest = true })
}

func TestLossOfTheLockEndsTheRest(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.leaves(0)
		sc.after(10 * time.Second)
		sc.want(t, "terminated@9.75s")
		sc.after(1750 * time.Millisecond) // the rest is long gone when the supervisor returns
		sc.want(t, "terminated@9.75s", "killed@11.75s")
		sc.after(goneBound)
		if status := <-sc.status; status != cli.ExitLost {
			t.Errorf("got status %d, want %d", status, cli.ExitLost)
		}
		if got := sc.stderr.String(); !strings.Contains(got, "what the command left running gets SIGTERM now and SIGKILL in 2s") {
			t.Errorf("got %q, want who gets what", got)
		}
	})
	playScene(t, func(sc *scene) { // it heeds SIGTERM
		sc.leaves(0)
		sc.after(10 * time.Second)
		sc.wantOver(t, cli.ExitLost)
		sc.want(t, "terminated@9.75s")
	})
	playScene(t, func(sc *scene) { // others have the lock
		sc.leaves(0)
		sc.after(time.Second)
		sc.lock.lose()
		sc.after(goneBound)
		sc.want(t, "killed@1s")
		if status := <-sc.status; status != cli.ExitLost {
			t.Errorf("got status %d, want %d", status, cli.ExitLost)
		}
	})
}

// A rest that ends after its lock is over, because redlock was stopped, has not ended well.
func TestRestThatOutlivedTheLockIsLost(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.leaves(0)
		sc.lock.mu.Lock()
		sc.lock.until = sc.begin.Add(-time.Second)
		sc.lock.mu.Unlock()
		sc.wantOver(t, cli.ExitLost)
	})
}

// A shell makes its background jobs ignore SIGINT, and nobody else is left to receive it.
func TestSignalThatMeansTheEndEndsTheRest(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT} {
		playScene(t, func(sc *scene) {
			sc.leaves(5)
			sc.signals <- signal
			sc.after(3 * time.Second)
			sc.signals <- signal // passed on; nothing starts again
			sc.after(3 * time.Second)
			want := []string{signal.String() + "@0s"}
			if signal != syscall.SIGTERM {
				want = append(want, "terminated@0s")
			}
			sc.want(t, append(want, "killed@2s", signal.String()+"@3s")...)
			sc.wantOver(t, 5)
		})
	}
	playScene(t, func(sc *scene) {
		sc.leaves(5)
		for _, signal := range []syscall.Signal{syscall.SIGHUP, syscall.SIGALRM} {
			sc.signals <- signal
		}
		sc.after(5 * time.Second)
		sc.want(t, "hangup@0s", "alarm clock@0s")
		sc.wantOver(t, 5)
	})
}

// A redlock that was stopped past the validity may receive SIGCONT after other signals.
func TestSignalDoesNotContinueARestWithoutTheLock(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.leaves(0)
		sc.lock.mu.Lock()
		sc.lock.until = sc.begin.Add(-time.Second)
		sc.lock.mu.Unlock()
		sc.signals <- syscall.SIGINT
		sc.after(goneBound)
		sc.want(t, "interrupt@0s", "killed@0s")
		if status := <-sc.status; status != cli.ExitLost {
			t.Errorf("got status %d, want %d", status, cli.ExitLost)
		}
	})
}

// While the command itself runs, it may take its time.
func TestSignalBeforeTheCommandEndedDoesNotEndTheRest(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.signals <- syscall.SIGTERM
		sc.after(time.Second)
		sc.leaves(0)
		sc.after(5 * time.Second)
		sc.want(t, "terminated@0s")
		sc.wantOver(t, 0)
	})
}
