//go:build unix && !linux

package job

import (
	"os"
	"syscall"
	"time"

	"github.com/redquorum/redquorum/cmd/redlock/internal/pgroup"
)

// tree is what descends from a command: a pipe tells when nothing of it is left. Signals reach only
// its group.
type tree struct {
	leash *leash
	empty bool // the group has no members, so its number may be somebody else's
}

// plant is called before the command starts; what it returns is called when it has.
func (t *tree) plant(*os.ProcAttr) (started func()) {
	var given func()
	t.leash, given = newLeash()
	return given
}

func (c *child) gone() bool {
	c.tree.empty = c.tree.empty || c.groupGone()
	return c.tree.empty && (c.detach || c.tree.leash.slack())
}

func (c *child) signal(s syscall.Signal) error {
	if c.tree.empty {
		return nil
	}
	return c.signalGroup(s)
}

func (c *child) still() bool         { return pgroup.Still(c.pid) }
func (*child) sweep()                {}
func (*child) left() string          { return "" }
func (*child) ending() time.Duration { return 0 }
