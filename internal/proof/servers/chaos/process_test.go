//go:build linux

package chaos

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/clock"
)

// process is a client process.
type process struct {
	id      int
	foreign bool
	file    string
	command *exec.Cmd
	input   io.Closer
	ended   chan struct{} // closed when it has been waited for
	err     error         // how it ended

	// Guarded by arena.mu.
	busy   bool // a fault has it
	killed bool
	stops  []*fault
}

// starter starts processes in a thread that lives as long as this process: the kernel kills a child
// with the thread that started it.
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

// start starts a client. Clients take turns with the sides.
func (a *arena) start(foreign bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	id := len(a.all) + 1
	b := brief{
		ID: id, Foreign: foreign, Store: "redis://" + a.store.Addr(), File: filepath.Join(a.dir, fmt.Sprint("client", id)),
		Seed: a.seed + uint64(id),
	}
	for _, n := range a.nodes {
		b.Nodes = append(b.Nodes, n.proxies[id%sideCount].URL())
	}
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), b.encode())
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		return err
	}
	done := make(chan error)
	starter() <- func() { done <- command.Start() }
	if err := <-done; err != nil {
		return err
	}
	p := &process{id: id, foreign: foreign, file: b.File, command: command, input: input, ended: make(chan struct{})}
	go func() {
		p.err = command.Wait()
		close(p.ended)
	}()
	a.clients, a.all = append(a.clients, p), append(a.all, p)
	return nil
}

// kill ends a process at once, a stopped one too. It may have ended already.
func (p *process) kill() error {
	if err := p.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.ended
	return nil
}

// end lets all clients end by themselves, and kills those that do not.
func (a *arena) end(limit time.Duration) {
	for _, p := range a.clients {
		assert.NoError(a.t, p.input.Close())
	}
	late := time.After(limit)
	for _, p := range a.clients {
		select {
		case <-p.ended:
			assert.NoError(a.t, p.err, "client %d", p.id)
		case <-late:
			a.t.Errorf("client %d has not ended after %v", p.id, limit)
			late = time.After(0)
			assert.NoError(a.t, p.kill())
		}
	}
}

// killAll kills what still runs, however the test ended.
func (a *arena) killAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.all {
		assert.NoError(a.t, p.kill())
	}
}

// victim returns a client that no other fault has.
func (a *arena) victim(rng *rand.Rand) *process {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, i := range rng.Perm(len(a.clients)) {
		if p := a.clients[i]; !p.busy {
			p.busy = true
			return p
		}
	}
	return nil
}

// replace kills a client and starts another one of its kind.
func (a *arena) replace(p *process) error {
	a.mu.Lock()
	p.killed = true
	for i, other := range a.clients {
		if other == p {
			a.clients = append(a.clients[:i:i], a.clients[i+1:]...)
			break
		}
	}
	a.mu.Unlock()
	if err := p.kill(); err != nil {
		return err
	}
	return a.start(p.foreign)
}

// stoppedAround reports whether a process was stopped or continued near an instant.
func (p *process) stoppedAround(from, to clock.Instant) bool {
	for _, f := range p.stops {
		if from < f.to.Add(time.Second) && to > f.from {
			return true
		}
	}
	return false
}
