package contention

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// messageTimeout bounds the wait for a message beyond the time that the worker was told to take.
const messageTimeout = 60 * time.Second

// process is one worker, seen from its parent.
type process struct {
	command *exec.Cmd
	orders  *gob.Encoder  // to its standard input; when that closes, the worker ends
	stderr  bytes.Buffer  // read once it has ended
	ended   chan struct{} // closed by receive
}

// event is a message of a worker, or the news that it has ended.
type event struct {
	from    *process
	message message
	ended   bool
}

// startProcess starts this program as a worker. Its messages arrive as events.
func startProcess(s spec, events chan<- event) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	p := &process{command: exec.Command(program), ended: make(chan struct{})}
	p.command.Env = append(os.Environ(), specVariable+"="+string(text))
	p.command.Stderr = &p.stderr
	in, err := p.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	p.orders = gob.NewEncoder(in)
	go p.receive(gob.NewDecoder(out), events) // ends with the worker's output
	return p, nil
}

// receive passes on the worker's messages until it has ended.
func (p *process) receive(in *gob.Decoder, events chan<- event) {
	defer close(p.ended)
	for {
		var m message
		if in.Decode(&m) != nil {
			break
		}
		events <- event{from: p, message: m}
	}
	err := p.command.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		fmt.Fprintf(&p.stderr, "%v", err)
	}
	events <- event{from: p, ended: true}
}

// kill sends SIGKILL and returns when the process is gone.
func (p *process) kill() error {
	if err := p.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(messageTimeout):
		return fmt.Errorf("contention: process %d is still there %v after it was killed", p.command.Process.Pid, messageTimeout)
	}
}

// eventRoom is more than all processes of a measurement send, so a parent that failed blocks none
// of them.
const eventRoom = 4096

// crew is the processes of a measurement.
type crew struct {
	spec      spec
	processes []*process
	events    chan event
}

// newCrew starts n processes, and returns once all are connected.
func newCrew(s spec, n int) (*crew, error) {
	c := &crew{spec: s, events: make(chan event, eventRoom)}
	for range n {
		if _, err := c.start(); err != nil {
			return nil, errors.Join(err, c.kill())
		}
	}
	for range n {
		if _, err := c.await(messageTimeout, func(e event) bool { return e.message.Ready }); err != nil {
			return nil, errors.Join(err, c.kill())
		}
	}
	return c, nil
}

func (c *crew) start() (*process, error) {
	p, err := startProcess(c.spec, c.events)
	if err == nil {
		c.processes = append(c.processes, p)
	}
	return p, err
}

// await returns the next event if it is a wanted one. Any other is an error, above all the failure
// of a process.
func (c *crew) await(d time.Duration, wanted func(event) bool) (event, error) {
	select {
	case e := <-c.events:
		switch {
		case e.message.Failure != "":
			return e, fmt.Errorf("process %d: %s", e.from.command.Process.Pid, e.message.Failure)
		case wanted(e):
			return e, nil
		case e.ended:
			return e, fmt.Errorf("process %d ended: %v\n%s", e.from.command.Process.Pid, e.from.command.ProcessState, &e.from.stderr)
		default:
			return e, fmt.Errorf("process %d sent an unexpected %+v", e.from.command.Process.Pid, e.message)
		}
	case <-time.After(d):
		return event{}, fmt.Errorf("contention: no message from the processes within %v", d)
	}
}

// kill ends all processes that have not ended yet.
func (c *crew) kill() error {
	var errs []error
	for _, p := range c.processes {
		errs = append(errs, p.kill())
	}
	return errors.Join(errs...)
}
