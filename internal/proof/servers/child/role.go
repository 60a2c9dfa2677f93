package child

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
)

// RoleVariable is the environment variable that names the part to play. A process inherits it, so
// the children of a child play the same part if they run the test binary.
const RoleVariable = "REDQUORUM_TEST_ROLE"

// Role is what a child does. It ends with status 0 when the role returns, or 1 if an assertion has
// failed; a role with another status calls [os.Exit].
type Role func(self *Self)

// Play plays a part and ends the process if it is a child. In the test's own process it does
// nothing. Call it first in TestMain.
func Play(roles map[string]Role) {
	name := os.Getenv(RoleVariable)
	if name == "" {
		return
	}
	self := &Self{Args: os.Args[1:]}
	role, known := roles[name]
	if !known {
		self.Errorf("child: there is no role %q", name)
		self.FailNow()
	}
	role(self)
	if self.failed.Load() {
		os.Exit(1)
	}
	os.Exit(0)
}

// Command returns the command that plays a part.
func Command(role string, args ...string) *exec.Cmd {
	command := exec.Command(os.Args[0], args...)
	command.Env = append(os.Environ(), RoleVariable+"="+role)
	return command
}

// Self is a child as it sees itself. It can be given to the assertions of testify in place of a
// test.
type Self struct {
	Args []string // those of [Command]

	once   sync.Once
	heard  chan string
	failed atomic.Bool
}

// Tell says a line to the parent. It is written at once and in one piece, so that it survives the
// death of this process and does not mix with others.
func (s *Self) Tell(words ...any) {
	if _, err := os.Stdout.WriteString(fmt.Sprintln(words...)); err != nil {
		s.Errorf("child: %v", err)
		s.FailNow()
	}
}

// Heard returns the lines of the parent. The channel is closed when the input ends.
func (s *Self) Heard() <-chan string {
	s.once.Do(func() {
		s.heard = make(chan string)
		go func() {
			defer close(s.heard)
			for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
				s.heard <- lines.Text()
			}
		}()
	})
	return s.heard
}

// Errorf prints an error. The child will have failed.
func (s *Self) Errorf(format string, args ...any) {
	s.failed.Store(true)
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}

// FailNow ends the process, whichever goroutine calls it.
func (s *Self) FailNow() { os.Exit(1) }
