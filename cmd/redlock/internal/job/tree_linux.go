package job

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/pgroup"
)

// tree is what descends from a command, in whatever group or session. We adopt its orphans, so the
// kernel tells when nothing is left of it: when we have no children.
//
// As the first process of a container we adopt the orphans of others, too, and cannot tell them
// apart. They count: the lock is held for too much rather than for too little.
type tree struct {
	killed map[int]uint64   // the starts of those that got SIGKILL, by their numbers
	frozen []pgroup.Process // that freeze stopped, outside the group
	seen   int              // how many the last freeze saw
	empty  bool             // the group has no members, so its number may be somebody else's
}

// inherited are the children that we had before the first command: those of whoever called exec, by
// their numbers, with their starts. They belong to no command. It is written before it is read.
var inherited map[int]uint64

// plant is called before the command starts; what it returns is called when it has.
func (*tree) plant(*os.ProcAttr) (started func()) {
	pgroup.AdoptOrphans(true)
	if inherited == nil {
		inherited = map[int]uint64{}
		ours, _ := pgroup.Children()
		if !pgroup.Shown() {
			ours = pgroup.Near(os.Getpid())
		}
		for _, p := range ours {
			inherited[p.PID] = p.Start
		}
	}
	return func() {}
}

func isInherited(p pgroup.Process) bool {
	start, is := inherited[p.PID]
	return is && start == p.Start
}

// descendants returns what descends from the command. False means that these are not all. Without
// /proc it has only our own children: what has lost its parents becomes one.
func (c *child) descendants() ([]pgroup.Process, bool) {
	if !pgroup.Shown() {
		return slices.DeleteFunc(pgroup.Near(c.pid), isInherited), false
	}
	return pgroup.Descendants(isInherited)
}

// gone reports whether nothing of the command is left.
func (c *child) gone() bool {
	if c.detach {
		return c.groupGone()
	}
	if pgroup.Childless() {
		return !c.escaped()
	}
	if len(inherited) == 0 {
		return false
	}
	all, known := pgroup.Children()
	for _, p := range all {
		known = known && isInherited(p)
	}
	return known && !c.escaped()
}

// escaped reports whether the group has members although the command has no descendants: orphans in
// a PID namespace that they entered (nsenter) are adopted by its first process.
func (c *child) escaped() bool {
	c.tree.empty = c.tree.empty || c.groupGone()
	return !c.tree.empty
}

// signal sends a signal to the group. What has left it, and so does not get what the terminal or
// others send to the group, gets only signals that mean its end, and those of freeze.
func (c *child) signal(s syscall.Signal) error {
	if c.detach {
		return c.signalGroup(s)
	}
	grouped := !c.ended() || pgroup.Childless() && c.escaped()
	var all []pgroup.Process
	if s == syscall.SIGTERM || s == syscall.SIGSTOP || !grouped {
		all, _ = c.descendants() // first: some of it changes its parent now
	}
	var failed error
	if grouped { // at once, and none of them gets away by a fork
		failed = c.signalGroup(s)
	}
	if s == syscall.SIGKILL {
		return cmp.Or(c.kill(grouped), failed)
	}
	for _, p := range all {
		switch member := p.Group == c.pid; {
		case member && grouped: // it has it, if it may
			failed = cmp.Or(failed, send(p, 0))
			continue
		case member || s == syscall.SIGTERM:
		case s == syscall.SIGSTOP:
			if p.Stopped() {
				continue // by somebody else, who will continue it
			}
			c.tree.frozen = append(c.tree.frozen, p)
		default:
			continue
		}
		failed = cmp.Or(failed, send(p, s))
	}
	if s == syscall.SIGCONT {
		for _, p := range c.tree.frozen {
			failed = cmp.Or(failed, send(p, s))
		}
		c.tree.frozen = nil
	}
	return failed
}

func send(p pgroup.Process, s syscall.Signal) error {
	if err := p.Signal(s); err != nil {
		return fmt.Errorf("%v: %w", p, err)
	}
	return nil
}

// sweep kills what has come since SIGKILL was sent.
func (c *child) sweep() {
	if c.detach {
		return
	}
	_ = c.kill(false) //nolint:errcheck // reported when it was sent for the first time
	if c.ended() && pgroup.Childless() && c.escaped() {
		_ = c.signalGroup(syscall.SIGKILL) //nolint:errcheck // as above
	}
}

// kill sends SIGKILL to all that a scan sees, and scans again until it sees nothing new. Parents
// come first, so that none starts its child again. What was forked meanwhile has become a child of
// ours, or has a parent that lives: a later scan sees it, until the kernel says that there is none.
func (c *child) kill(grouped bool) (failed error) {
	if c.tree.killed == nil {
		c.tree.killed = map[int]uint64{}
	}
	for fresh := true; fresh; {
		fresh = false
		all, _ := c.descendants()
		for _, p := range all {
			if start, was := c.tree.killed[p.PID]; grouped && p.Group == c.pid || was && start == p.Start {
				continue
			}
			fresh = true
			c.tree.killed[p.PID] = p.Start
			failed = cmp.Or(failed, send(p, syscall.SIGKILL))
		}
	}
	return failed
}

// Unseen says what a command may do unseen on this machine; empty if nothing.
func Unseen() string {
	if pgroup.Shown() {
		return ""
	}
	return "/proc is missing, or that of another PID namespace: what leaves the process group of the command (setsid, " +
		"timeout, daemons) is waited for, but may get no signal, and after a loss run on beside the next holder " +
		"(mount /proc, or give --detach if nothing that matters leaves the group)"
}

// left names what is left for people.
func (c *child) left() string {
	if c.detach {
		return ""
	}
	all, _ := c.descendants()
	switch len(all) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf(": %v", all[0])
	default:
		return fmt.Sprintf(": %v and %d more", all[0], len(all)-1)
	}
}

// still reports whether nothing executes, and nothing was forked since the last time. What cannot
// be seen does not stand still: the lock must be renewed for it.
func (c *child) still() bool {
	if c.detach {
		return pgroup.Still(c.pid)
	}
	all, known := c.descendants()
	still := known && len(all) == c.tree.seen
	c.tree.seen = len(all)
	for _, p := range all {
		still = still && p.Still()
	}
	return still
}

// endingEach is how long the kernel and we take to end a process, and a little more (BenchmarkEnd).
const endingEach = 250 * time.Microsecond

// ending returns how long it takes to end everything that runs now.
func (c *child) ending() time.Duration {
	if c.detach {
		return 0
	}
	clk := clock.System()
	began := clk.Now()
	all, _ := c.descendants()
	return 2*clk.Now().Sub(began) + time.Duration(len(all))*endingEach
}
