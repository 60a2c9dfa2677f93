//go:build linux

package scenario_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

// The child process takes the lock of this name on these masters.
const (
	childName  = "REDQUORUM_TEST_CHILD_NAME"
	childNodes = "REDQUORUM_TEST_CHILD_NODES"

	childTTL = 2 * time.Second // a busy machine may stop it for a while
)

// child is another process that holds a lock and follows instructions.
type child struct {
	t       *testing.T
	command *exec.Cmd
	in      io.Writer
	out     *bufio.Scanner
}

// runChild is the child. It answers each line with a line.
func runChild(t *testing.T, name string, urls []string) {
	l, err := redlock.New(urls, redlock.WithTTL(childTTL), redlock.WithNodeTimeout(childTTL/4))
	require.NoError(t, err)
	defer l.Close()
	lock, err := l.Lock(t.Context(), name)
	require.NoError(t, err)
	fmt.Println("held", lock.Value())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		switch lines.Text() {
		case "look":
			fmt.Println(lock.Err())
		case "remaining":
			fmt.Println(lock.Remaining() > 0)
		case "extend":
			fmt.Println(lock.Extend(context.Background(), childTTL))
		case "unlock":
			fmt.Println(lock.Unlock(context.Background()))
		}
	}
}

// startChild starts this test again in another process.
func startChild(t *testing.T, urls []string) *child {
	t.Helper()
	command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	command.Env = append(os.Environ(), childName+"="+cluster.LockName(t), childNodes+"="+strings.Join(urls, ","))
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	require.NoError(t, err)
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		assert.NoError(t, command.Process.Kill())
		assert.Error(t, command.Wait(), "killed")
	})
	return &child{t, command, in, bufio.NewScanner(out)}
}

// answer returns the child's next line.
func (c *child) answer() string {
	c.t.Helper()
	require.True(c.t, c.out.Scan(), "the child has ended: %v", c.out.Err())
	return c.out.Text()
}

func (c *child) ask(question string) string {
	c.t.Helper()
	_, err := fmt.Fprintln(c.in, question)
	require.NoError(c.t, err)
	return c.answer()
}

func (c *child) signal(sig os.Signal) {
	c.t.Helper()
	require.NoError(c.t, c.command.Process.Signal(sig))
}

// A process that was stopped beyond its TTL says at once that the lock is lost, whichever call it
// makes first. What it then does to the lock touches nobody else's key.
func TestHoldingEndsInAProcessThatWasStoppedForTooLong(t *testing.T) {
	if name := os.Getenv(childName); name != "" {
		runChild(t, name, strings.Split(os.Getenv(childNodes), ","))
		return
	}
	t.Parallel()
	c := cluster.Start(t, 5)
	var monitors []*redistest.Monitor
	for _, m := range c.Masters {
		monitors = append(monitors, m.(*redistest.Server).Monitor(t))
	}
	l := cluster.NewConnected(t, c.URLs(), redlock.WithTTL(longTTL), redlock.WithoutRenewal(), redlock.WithNodeTimeout(patience))
	lost := "redlock: lock lost"
	for first, want := range map[string]string{"look": lost, "remaining": "false", "extend": lost, "unlock": lost} {
		holder := startChild(t, c.URLs())
		require.Contains(t, holder.answer(), "held ")
		holder.signal(syscall.SIGSTOP)
		lock, err := l.Lock(t.Context(), cluster.LockName(t), redlock.WithRetry(time.Millisecond, 10*time.Millisecond))
		require.NoError(t, err)
		// Also on a node where the key of the first holder lives a little longer.
		cluster.Eventually(t, slack, func() string {
			require.NoError(t, lock.Extend(t.Context(), longTTL))
			if n := c.Holding(t, cluster.LockName(t), lock.Value()); n < len(c.Masters) {
				return fmt.Sprintf("the lock is on %d nodes", n)
			}
			return ""
		})
		// Every node answers this after everything that was sent before.
		_, err = l.Inspect(t.Context(), cluster.LockName(t))
		require.NoError(t, err)
		for _, m := range monitors {
			m.Sync()
			m.Clear()
		}
		holder.signal(syscall.SIGCONT)
		assert.Contains(t, holder.ask(first), want, "at the first look")
		for _, late := range []string{"look", "extend", "unlock", "extend", "unlock"} {
			assert.Contains(t, holder.ask(late), lost, late)
		}
		assert.Equal(t, 5, c.Holding(t, cluster.LockName(t), lock.Value()))
		for i, m := range monitors {
			m.Sync()
			for _, harm := range []string{"SET", "DEL", "PEXPIRE"} {
				// A SET NX may still come: it was due when the process was stopped, and does no
				// harm.
				lines := slices.DeleteFunc(m.Matching(fmt.Sprintf("%q %q", harm, cluster.LockName(t))), func(line string) bool {
					return strings.Contains(line, `"NX" "PX"`)
				})
				assert.Empty(t, lines, "node %d", i)
			}
		}
		require.NoError(t, lock.Verify(t.Context()))
		require.NoError(t, lock.Unlock(t.Context()))
		cluster.RequireClean(t, c.Masters...)
	}
}
