// Package child runs the child processes of a test: this test binary again, playing a part
// ([Play], [Command]), or another program.
//
//	func TestMain(m *testing.M) {
//		child.Play(map[string]child.Role{"holder": hold})
//		os.Exit(m.Run())
//	}
//
//	func hold(self *child.Self) { // in the child
//		lock, err := lockOn(self.Args)
//		require.NoError(self, err)
//		self.Tell("held", lock.Value())
//		for line := range self.Heard() {
//			self.Tell(answer(lock, line))
//		}
//	}
//
//	func TestHolderIsStopped(t *testing.T) { // in its parent
//		holder := child.Start(t, child.Command("holder", urls...))
//		require.Contains(t, holder.Next(t), "held ")
//		require.NoError(t, holder.Stop())
//		require.NoError(t, holder.Continue())
//		require.Equal(t, "lost", holder.Ask(t, "look"))
//	}
//
// What [Start] started is killed and waited for when the test ends, and a child that failed by
// itself fails the test. On Linux the kernel kills all children when their parent ends, however it
// ends. No wait lasts longer than a minute.
package child

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for a child. None takes that long unless something is wrong.
const patience = time.Minute

// lineRoom is how many lines nobody needs to have read. Beyond it the child waits when it writes.
const lineRoom = 1 << 16

// Process is a child process. Its methods may be called from any goroutine.
type Process struct {
	command *exec.Cmd
	input   io.WriteCloser // nil: the command has its own
	output  *os.File       // nil: the command has its own
	lines   chan string    // what it says; closed by listen at its end
	deaf    chan struct{}  // closed when nobody listens any more

	killed atomic.Bool   // by Kill
	asked  atomic.Bool   // somebody has asked how it ended
	ended  chan struct{} // closed by reap
	exit   error         // written by reap before it closes ended
}

// Start starts a child that ends with the test. Where the command has no Stdin, the test can
// [Process.Tell] it something; where it has no Stdout, the test gets its lines; where it has no
// Stderr, it has that of the test.
func Start(tb testing.TB, command *exec.Cmd) *Process {
	tb.Helper()
	p, err := start(command)
	if err != nil {
		tb.Fatalf("child: start %s: %v", command, err)
	}
	tb.Cleanup(func() {
		if !p.Running() && p.exit != nil && !p.killed.Load() && !p.asked.Load() {
			tb.Errorf("child: %s has ended by itself: %v", command, p.exit)
		}
		if err := p.Kill(); err != nil {
			tb.Errorf("child: %s: %v", command, err)
		}
		close(p.deaf)
		if p.output != nil {
			_ = p.output.Close() //nolint:errcheck // a grandchild may have the other end
		}
	})
	return p
}

func start(command *exec.Cmd) (*Process, error) {
	p := newProcess(command)
	var err error
	if command.Stdin == nil {
		if p.input, err = command.StdinPipe(); err != nil {
			return nil, err
		}
	}
	if command.Stderr == nil {
		command.Stderr = os.Stderr
	}
	if command.Stdout != nil {
		close(p.lines)
		return p, p.launch()
	}
	output, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	command.Stdout = theirs
	err = errors.Join(p.launch(), theirs.Close())
	if err != nil {
		return nil, errors.Join(err, output.Close())
	}
	p.output = output
	go p.listen() // ends with the child and those that have inherited its output, or with the test
	return p, nil
}

// Launch starts a child without a test, and leaves its input and output alone. It is never started
// a second time.
func Launch(command *exec.Cmd) (*Process, error) {
	p := newProcess(command)
	return p, p.launch()
}

func newProcess(command *exec.Cmd) *Process {
	return &Process{command: command, lines: make(chan string, lineRoom), deaf: make(chan struct{}), ended: make(chan struct{})}
}

// defaults gives children the default actions of signals that the tests were started to ignore, as
// nohup does it, and a script with what it runs in the background: a child does not inherit that of
// a signal which is received here. It ends the tests as little as before.
var defaults = sync.OnceFunc(func() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s) // nobody receives
		}
	}
})

func (p *Process) launch() error {
	defaults()
	if err := startCommand(p.command); err != nil {
		return err
	}
	go p.reap() // ends when the process does
	return nil
}

func (p *Process) reap() {
	p.awaitEnd()
	p.exit = p.command.Wait()
	close(p.ended)
}

func (p *Process) listen() {
	defer close(p.lines)
	lines := bufio.NewScanner(p.output)
	for lines.Buffer(nil, 1<<20); lines.Scan(); {
		select {
		case p.lines <- lines.Text():
		case <-p.deaf:
			return
		}
	}
}

// Pid returns the id of the process.
func (p *Process) Pid() int { return p.command.Process.Pid }

// Running reports whether the process has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Killed reports whether [Process.Kill] was called.
func (p *Process) Killed() bool { return p.killed.Load() }

// Exit returns how the process ended, as [exec.Cmd.Wait] does. It has ended.
func (p *Process) Exit() error {
	p.asked.Store(true)
	<-p.ended
	return p.exit
}

// Wait waits until the process ends, and returns its status: -1 if a signal ended it.
func (p *Process) Wait(tb testing.TB) (status int) {
	tb.Helper()
	p.asked.Store(true)
	select {
	case <-p.ended:
	case <-time.After(patience):
		tb.Fatalf("child: %s has not ended within %v", p.command, patience)
	}
	if exit := (*exec.ExitError)(nil); p.exit != nil && !errors.As(p.exit, &exit) {
		tb.Fatalf("child: %s: %v", p.command, p.exit)
	}
	return p.command.ProcessState.ExitCode()
}

// Stop sends SIGSTOP and returns once the process has stopped. The kernel goes on accepting
// connections and bytes for it. It returns [os.ErrProcessDone] if the process has ended, and on
// systems other than Linux [errors.ErrUnsupported].
func (p *Process) Stop() error { return p.suspend() }

// Continue sends SIGCONT: the process goes on after a [Process.Stop]. On systems other than Linux
// it returns [errors.ErrUnsupported].
func (p *Process) Continue() error { return p.resume() }

// Kill ends the process and waits until it is gone. It may have ended before. A stopped process is
// not continued first: SIGKILL ends it as it is, whereas SIGCONT would let it do what waits for it,
// such as the commands in the sockets of a server.
func (p *Process) Kill() error {
	if p.Running() {
		p.killed.Store(true)
	}
	if err := p.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %d: %w", p.Pid(), err)
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("process %d is still there %v after it was killed", p.Pid(), patience)
	}
}

// Tell writes a line to the process.
func (p *Process) Tell(words ...any) error {
	_, err := fmt.Fprintln(p.input, words...)
	return err
}

// CloseInput ends the input of the process.
func (p *Process) CloseInput() error { return p.input.Close() }

// Lines returns what the process says, line by line. The channel is closed when it has ended.
func (p *Process) Lines() <-chan string { return p.lines }

// Next returns the next line that the process says.
func (p *Process) Next(tb testing.TB) string {
	tb.Helper()
	select {
	case line, ok := <-p.lines:
		if !ok {
			tb.Fatalf("child: %s has ended, and says nothing more", p.command)
		}
		return line
	case <-time.After(patience):
		tb.Fatalf("child: %s has said nothing for %v", p.command, patience)
		return ""
	}
}

// Ask tells the process a line, and returns the next line that it says.
func (p *Process) Ask(tb testing.TB, words ...any) string {
	tb.Helper()
	if err := p.Tell(words...); err != nil {
		tb.Fatalf("child: tell %s: %v", p.command, err)
	}
	return p.Next(tb)
}
