//go:build unix

package job

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/pgroup"
)

func (c *child) signalGroup(s syscall.Signal) error {
	if err := syscall.Kill(-c.pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// zombieInterval is how many calls of groupGone there are per check for zombies, which is slower:
// it reads every process.
const zombieInterval = 16

func (c *child) groupGone() bool {
	if errors.Is(syscall.Kill(-c.pid, 0), syscall.ESRCH) {
		return true
	}
	c.polls++
	return c.polls%zombieInterval == 1 && pgroup.Dead(c.pid)
}

const (
	// On a loaded machine it takes that long until every process notices SIGSTOP.
	freezeBound    = 2 * time.Second
	freezeShortest = time.Millisecond
	freezeLongest  = 50 * time.Millisecond
)

// freeze stops everything, whatever signals it ignores, and reports whether it stands still.
//
// SIGSTOP reaches every member of the group at that moment. On Linux no member escapes by a fork: a
// fork in progress is undone, and redone when the parent continues. What remains is the time until
// each member notices, in which none gets far, and members that we may not signal.
func (c *child) freeze() bool {
	clk := clock.System()
	pause := clock.Backoff{Shortest: freezeShortest, Longest: freezeLongest}
	for until := clk.Now().Add(freezeBound); clk.Now() < until; clock.Sleep(context.Background(), clk, pause.Next()) {
		_ = c.signal(syscall.SIGSTOP) //nolint:errcheck // members that did not get it do not stand still
		if c.still() {
			return true
		}
	}
	return false
}
