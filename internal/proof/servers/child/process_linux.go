package child

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stopPoll is short because the wait is part of every directed scenario.
const stopPoll = 200 * time.Microsecond

// starter runs calls in the goroutine that starts all children. Pdeathsig fires when the *thread*
// that started the child ends, and the runtime ends threads as it likes. So this goroutine keeps a
// thread of its own and lives as long as the process: nothing stops it or waits for it.
var starter = sync.OnceValue(func() chan<- func() {
	calls := make(chan func())
	go func() {
		runtime.LockOSThread()
		for call := range calls {
			call()
		}
	}()
	return calls
})

// startCommand starts a child that the kernel kills when this process ends, however it ends.
func startCommand(command *exec.Cmd) error {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	starter() <- func() { started <- command.Start() }
	return <-started
}

// exitPause is for the last thread of a process, which is still busy with its entries in /proc when
// its end is told. Who reaps the process meanwhile waits for that in the kernel, and not asleep: up
// to seconds on a machine with much to do, a third of the time that tests of many processes took.
const exitPause = 10 * time.Millisecond

// awaitEnd waits until the process can be reaped, and its threads are gone.
func (p *Process) awaitEnd() {
	for errors.Is(unix.Waitid(unix.P_PID, p.Pid(), nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	time.Sleep(exitPause)
}

// suspend stops the process and waits until none of its threads runs: kill(2) returns earlier.
func (p *Process) suspend() error {
	if err := p.command.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(stopPoll) {
		stopped, err := p.stopped()
		if err != nil || stopped {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d still runs %v after SIGSTOP", p.Pid(), patience)
		}
	}
}

func (p *Process) resume() error { return p.command.Process.Signal(syscall.SIGCONT) }

// stopped reports whether every thread is in state T of proc_pid_stat(5).
func (p *Process) stopped() (bool, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.Pid()))
	if err != nil {
		return false, err
	}
	if len(files) == 0 || !p.Running() {
		return false, os.ErrProcessDone
	}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			return false, nil // this thread ended meanwhile; try again
		}
		if err != nil {
			return false, err
		}
		// The name in parentheses may contain any byte; the state follows the last parenthesis.
		_, state, found := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(") "))
		if !found || !bytes.HasPrefix(state, []byte("T")) {
			return false, nil
		}
	}
	return true, nil
}
