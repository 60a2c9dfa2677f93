// Package job runs a command for as long as a lock is held: the command is ended before the lock is
// anybody else's, and the lock can be given up once nothing of the command runs any more.
package job

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
)

// Job is a command, and how it is run.
type Job struct {
	Path     string // of the command, see [Find]
	Argv     []string
	Env      []string
	Clock    clock.Clock
	Signals  <-chan os.Signal // that are sent to us, see [Notify]
	Messages Messages
	Grace    Grace
	KillRest bool          // end what the command leaves running
	Detach   bool          // what has left the command's process group is on its own
	HoldEnds clock.Instant // set by --max-hold; 0: no limit
	Causes   func() string // why masters do not vote, for the message of a loss; empty if all do

	// Left, if set, is told once, a second after the command has ended, its status and what it left
	// running. It must not block.
	Left func(status int, what string)
}

// Result is how a command ended.
type Result struct {
	Status int       // the exit status
	Lost   bool      // the command was told to end because the lock was lost or about to be
	Cut    bool      // it is lost because of --max-hold
	Why    string    // it was lost, or ended otherwise than by itself
	Asked  os.Signal // to end: SIGINT, SIGTERM or SIGQUIT, which was passed on to it; or nil
}

// Run runs the command until it and everything that it has started have ended. The error is a
// [cli.StatusError] if the command cannot be started. Commands may follow one another.
func (j *Job) Run(lock Lock) (Result, error) {
	command, err := startChild(j.Path, j.Argv, j.Env, j.Detach)
	if err != nil {
		return Result{}, notExecutable(j.Argv, err)
	}
	s := &supervisor{
		lock: lock, command: command, grace: j.Grace, clock: j.Clock, signals: j.Signals, messages: j.Messages,
		job: newJobControl(command, j.Messages), killRest: j.KillRest, holdEnds: j.HoldEnds,
		causes: j.Causes, left: j.Left,
	}
	status := s.supervise()
	return Result{Status: status, Lost: s.lost, Cut: s.cut, Why: s.reason, Asked: s.asked}, nil
}

func notExecutable(argv []string, err error) error {
	return cli.StatusError{Status: cli.ExitNotExecutable, Err: fmt.Errorf("cannot run %s: %w", argv[0], err)}
}

// Find looks a command up as a shell does, and finds out whether it can be executed in such an
// environment. It runs before the lock is requested: nobody should wait for a lock to learn of a
// typo. What it returns is never final: files change while the lock is waited for.
func Find(argv, env []string) (string, error) {
	path, err := exec.LookPath(argv[0])
	switch {
	case err == nil || errors.Is(err, exec.ErrDot): // if . is in PATH, it is meant
		if err := try(path, argv, env); err != nil {
			return "", notExecutable(argv, err)
		}
		return path, nil
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EISDIR):
		return "", cli.StatusError{Status: cli.ExitNotExecutable, Err: err}
	case len(argv) == 1 && strings.ContainsRune(argv[0], ' '):
		return "", cli.StatusError{Status: cli.ExitNotFound, Err: fmt.Errorf("%w; for a shell line: sh -c '…'", err)}
	default:
		return "", cli.StatusError{Status: cli.ExitNotFound, Err: err}
	}
}

// Variables in the environment of the command.
const (
	NameVariable  = "REDLOCK_NAME"
	FenceVariable = "REDLOCK_FENCE"
	UntilVariable = "REDLOCK_UNTIL"
	HeldVariable  = "REDLOCK_HELD" // the locks of all redlocks around the command
)

// Environment returns the environment of a command: ours without the variables of the lock of an
// outer redlock, and with these variables; those that are empty are removed.
func Environment(ours []string, variables ...string) []string {
	given := map[string]bool{NameVariable: true, FenceVariable: true, UntilVariable: true}
	var env []string
	for _, variable := range variables {
		name, value, _ := strings.Cut(variable, "=")
		given[name] = true
		if value != "" {
			env = append(env, variable)
		}
	}
	for _, variable := range ours {
		if name, _, _ := strings.Cut(variable, "="); !given[name] {
			env = append(env, variable)
		}
	}
	return env
}
