package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// exitTimeout bounds the wait for a killed process. The kernel takes milliseconds.
	exitTimeout = 10 * time.Second
	// lastLineCount is how many lines of a server's output an error shows: enough for Redis's
	// reason, but not for its stack dump.
	lastLineCount = 20
)

var errNotRunning = errors.New("the server is not running")

// process is one run of redis-server. It is never started a second time.
type process struct {
	command *exec.Cmd
	output  string        // the file for its stdout and stderr
	killed  atomic.Bool   // we ended it
	exited  chan struct{} // closed by reap
	exit    error         // written by reap before it closes exited
}

func startProcess(command *exec.Cmd, output string) (*process, error) {
	file, err := os.Create(output)
	if err != nil {
		return nil, err
	}
	defer closeQuietly(file) // the child has its own descriptor
	command.Stdout, command.Stderr = file, file
	if err := startCommand(command); err != nil {
		return nil, err
	}
	p := &process{command: command, output: output, exited: make(chan struct{})}
	go p.reap() // ends when the process does
	return p, nil
}

func (p *process) reap() {
	p.exit = p.command.Wait()
	close(p.exited)
}

func (p *process) pid() int { return p.command.Process.Pid }

func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// kill ends the process and waits until it is gone. It does not continue a stopped process first:
// SIGKILL ends it as it is, whereas SIGCONT would let it execute the commands that wait in its
// sockets.
func (p *process) kill() error {
	p.killed.Store(true)
	if err := p.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %d: %w", p.pid(), err)
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(exitTimeout):
		return fmt.Errorf("process %d is still there %v after it was killed", p.pid(), exitTimeout)
	}
}

// lastLines returns the end of the process's output.
func (p *process) lastLines() string {
	text, err := os.ReadFile(p.output)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-lastLineCount):], "\n")
}
