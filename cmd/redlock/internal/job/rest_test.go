package job

import (
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
)

func TestLockIsHeldForWhatTheCommandLeavesRunning(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.leaves(3)
		for range 5 {
			sc.after(4 * time.Second)
			sc.lock.renew(12 * time.Second)
			sc.held()
		}
		sc.sent()
		sc.restOver(3, `lock "x" is held until what it left running has ended too: process 7 (left) (--kill-rest`)
		assert.Equal(t, 2, strings.Count(sc.stderr.String(), "the command has ended"), "after 1s, and after 10s")
	})
}

// A helper that never ends keeps the job from running, and nobody would learn why.
func TestARestThatStaysIsToldAgainAndAgainAlsoWithQuiet(t *testing.T) {
	for ran, first := range map[time.Duration]time.Duration{0: restTold, 5 * time.Second: 5 * time.Second, time.Hour: restQuiet} {
		playScene(t, func(sc *scene) {
			sc.lock.renew(1000 * time.Hour)
			sc.after(ran)
			sc.leaves(0)
			sc.after(first - restLongest)
			assert.Empty(t, sc.stderr.String())
			for lines, wait := range []time.Duration{restLongest, 9 * first, 90 * first} {
				sc.after(min(wait, restAgain) + wait/10 + 2*restLongest) // a check may be late, and later ones with it
				assert.Equal(t, lines+1, strings.Count(sc.stderr.String(), `lock "x" is held until what it left running has ended`), "%v", wait)
			}
			sc.restOver(0, "process 7 (left)")
		}, func(sc *scene) { sc.s.messages.Quiet = true })
	}
}

func TestShortRestIsNotWorthALine(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.leaves(0)
		sc.after(restTold - restLongest)
		sc.restOver(0, "")
	})
}

func TestRestIsKilledOnDemand(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.leaves(4)
		sc.sent("terminated@0s")
		sc.after(2900 * time.Millisecond)
		sc.held() // SIGKILL takes time as well
		sc.sent("terminated@0s", "killed@2s")
		sc.restOver(4, "")
	}, killRest)
	playScene(t, func(sc *scene) { // without a grace
		sc.leaves(4)
		sc.after(time.Nanosecond) // a timer that is due at once
		sc.sent("terminated@0s", "killed@1ns")
		sc.restOver(4, "")
	}, killRest, func(sc *scene) { sc.s.grace.killAfter = 0 })
	playScene(t, func(sc *scene) { // it cannot be killed
		sc.leaves(4)
		sc.after(9 * time.Second)
		sc.held()
		sc.sent("terminated@0s", "killed@2s")
		sc.restOver(4, "redlock: what the command left running does not end; lock \"x\" is held until it does\n")
		assert.Equal(t, 1, strings.Count(sc.stderr.String(), "\n"), "lines")
	}, killRest)
	playScene(t, func(sc *scene) { // there is none
		sc.exits(6)
		sc.over(6, "")
		sc.sent()
	}, killRest)
}

func TestLossOfTheLockEndsTheRest(t *testing.T) {
	const gets = "what the command left running gets SIG"
	playScene(t, func(sc *scene) {
		sc.leaves(0)
		sc.after(10 * time.Second)
		sc.sent("terminated@9.75s")
		sc.after(1750 * time.Millisecond) // the rest is long gone when the supervisor returns
		sc.sent("terminated@9.75s", "killed@11.75s")
		sc.over(cli.ExitLost, gets+"TERM now and SIGKILL in 2s")
	})
	playScene(t, func(sc *scene) { // it heeds SIGTERM
		sc.leaves(0)
		sc.after(10 * time.Second)
		sc.restOver(cli.ExitLost, gets+"TERM")
		sc.sent("terminated@9.75s")
	})
	playScene(t, func(sc *scene) { // others have the lock
		sc.leaves(0)
		sc.after(time.Second)
		sc.lock.lose()
		synctest.Wait()
		sc.sent("killed@1s")
		sc.over(cli.ExitLost, gets+"KILL")
	})
}

// A redlock that was stopped past the validity has not ended well: a rest that ends after its lock
// is over, or gets SIGCONT after other signals.
func TestRestThatOutlivedTheLockIsLost(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.leaves(0)
		sc.lock.expire()
		sc.restOver(cli.ExitLost, "before the command had ended")
	})
	playScene(t, func(sc *scene) {
		sc.leaves(0)
		sc.lock.expire()
		sc.signals <- syscall.SIGINT
		synctest.Wait()
		sc.sent("interrupt@0s", "killed@0s")
		sc.over(cli.ExitLost, "SIGKILL")
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
			sc.sent(append(want, "killed@2s", signal.String()+"@3s")...)
			sc.restOver(5, "left running")
		})
	}
	playScene(t, func(sc *scene) {
		sc.leaves(5)
		for _, signal := range []syscall.Signal{syscall.SIGHUP, syscall.SIGALRM} {
			sc.signals <- signal
		}
		sc.after(5 * time.Second)
		sc.sent("hangup@0s", "alarm clock@0s")
		sc.restOver(5, "left running")
	})
}

// While the command itself runs, it may take its time.
func TestSignalBeforeTheCommandEndedDoesNotEndTheRest(t *testing.T) {
	playScene(t, func(sc *scene) {
		sc.signals <- syscall.SIGTERM
		sc.after(time.Second)
		sc.leaves(0)
		sc.after(5 * time.Second)
		sc.sent("terminated@0s")
		sc.restOver(0, "left running")
	})
}
