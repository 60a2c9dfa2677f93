//go:build unix

package run

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
)

// play runs one of the commands that redlock runs in tests. A shell could do most of it, but not as
// fast.
func play(part string, args []string) int {
	switch part {
	case "beat": // FILE: write the time into it over and over, and ignore SIGTERM
		signal.Ignore(syscall.SIGTERM)
		file, err := os.Create(args[0])
		if err != nil {
			return 1
		}
		for {
			if _, err := file.WriteAt(fmt.Appendf(nil, "%d %d\n", os.Getpid(), time.Now().UnixNano()), 0); err != nil {
				return 1
			}
			time.Sleep(500 * time.Microsecond)
		}
	// FILE: leave the group, but keep a child there that has ended and is never reaped
	case "hoard":
		child, err := os.StartProcess("/bin/sh", []string{"sh", "-c", ":"}, &os.ProcAttr{})
		if err != nil {
			return 1
		}
		for !dead(child.Pid)() {
			time.Sleep(time.Millisecond)
		}
		if _, err := syscall.Setsid(); err != nil {
			return 1
		}
		if os.WriteFile(args[0], fmt.Appendf(nil, "%d\n", os.Getpid()), 0o600) != nil {
			return 1
		}
		time.Sleep(2 * clitest.Patience)
		return 0
	case "witness": // FILE: report what a beat wrote there, and whether it is still alive
		now := time.Now().UnixNano()
		pid, last, err := readBeat(args[0])
		if err != nil {
			return 1
		}
		if alive := !dead(pid)(); alive || last >= now {
			fmt.Printf("alive: %v; last beat %v after the start of the next\n", alive, time.Duration(last-now))
			return 2
		}
		return 0
	default:
		return 3
	}
}

// readBeat returns what a beat wrote last.
func readBeat(path string) (pid int, last int64, err error) {
	text, err := os.ReadFile(path)
	if err == nil {
		_, err = fmt.Sscanf(string(text), "%d %d\n", &pid, &last)
	}
	return pid, last, err
}

// asPart returns a command line that runs a part of play.
func asPart(t *testing.T, part string, args ...string) []string {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	return append([]string{"env", clitest.RoleVariable + "=" + part, binary}, args...)
}

func exists(path string) func() bool {
	return func() bool {
		_, err := os.Stat(path)
		return err == nil
	}
}

// pidIn reads a process number from a file, once it is there.
func pidIn(t *testing.T, path string) (pid int) {
	t.Helper()
	clitest.WaitFor(t, "a pid in "+filepath.Base(path), func() bool {
		text, err := os.ReadFile(path)
		if err != nil || !strings.HasSuffix(string(text), "\n") {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	return pid
}

// dead reports whether a process has ended, reaped or not.
func dead(pid int) func() bool {
	return func() bool {
		if syscall.Kill(pid, 0) != nil {
			return true
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // on Linux
		_, state, found := strings.Cut(string(stat), ") ")
		return err == nil && found && strings.HasPrefix(state, "Z")
	}
}
