package redistest

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
)

// Server is a redis-server process with a port and a directory of its own. Its methods may be
// called from any goroutine.
type Server struct {
	config  config
	dir     string
	port    int
	process atomic.Pointer[process] // the current or the last run
	client  client                  // our private connection, for Do

	lifecycle sync.Mutex // serializes Stop, Continue, Kill, Restart and close; held while they wait
	closed    bool       // guarded by lifecycle
}

// newServer starts a server, on another port if another process takes the chosen one first.
func newServer(config config) (*Server, error) {
	// The name is short: the path of a unix socket has at most 107 bytes.
	dir, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		return nil, err
	}
	s := &Server{config: config, dir: dir}
	s.client.dial = s.dial
	for range startAttempts {
		if s.port, err = config.pickPort(); err != nil {
			break
		}
		if err = s.start(); err == nil {
			return s, nil
		}
		ports.release(s.port)
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	return nil, errors.Join(err, os.RemoveAll(dir))
}

// Addr returns the server's host:port. Restarts do not change it.
func (s *Server) Addr() string { return address(s.port) }

// URL returns the server as redis://host:port, with the password if there is one.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", Host: s.Addr()}
	if s.config.password != "" {
		u.User = url.UserPassword("", s.config.password)
	}
	return u.String()
}

// Socket returns the path of the unix socket, or "" without [WithUnixSocket].
func (s *Server) Socket() string {
	if !s.config.unixSocket {
		return ""
	}
	return filepath.Join(s.dir, "redis.sock")
}

// Pid returns the id of the running process, or 0 while there is none.
func (s *Server) Pid() int {
	if process := s.process.Load(); process.running() {
		return process.pid()
	}
	return 0
}

// Stop sends SIGSTOP and returns once the process has stopped. The kernel goes on accepting
// connections and bytes for it, and the server executes all of them after [Server.Continue]. On
// systems other than Linux it returns [errors.ErrUnsupported].
func (s *Server) Stop() error { return s.signal("stop", (*process).suspend) }

// Continue sends SIGCONT: the server goes on after a [Server.Stop]. On systems other than Linux it
// returns [errors.ErrUnsupported].
func (s *Server) Continue() error { return s.signal("continue", (*process).resume) }

func (s *Server) signal(name string, send func(*process) error) error {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	process := s.process.Load()
	err := errNotRunning
	if process.running() {
		err = send(process)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", name, s.Addr(), err)
	}
	return nil
}

// Kill sends SIGKILL, to a stopped process too, and returns once the process is gone. Killing a
// dead server does nothing.
func (s *Server) Kill() error {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	return s.killLocked()
}

// Restart kills the server if it runs, and starts it on the same port and in the same directory. It
// is empty unless persistence is configured. Restart returns once the server answers.
func (s *Server) Restart() error {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	if s.closed {
		return fmt.Errorf("restart %s: its test is over", s.Addr())
	}
	if err := s.killLocked(); err != nil {
		return err
	}
	return s.start()
}

// RestartWith is [Server.Restart] with more arguments, which later restarts keep.
func (s *Server) RestartWith(args ...string) error {
	s.lifecycle.Lock()
	s.config.args = append(slices.Clone(s.config.args), args...)
	s.lifecycle.Unlock()
	return s.Restart()
}

func (s *Server) killLocked() error {
	err := s.process.Load().kill()
	s.client.drop()
	return err
}

// close ends the server for good. It can report a failure only on stderr.
func (s *Server) close() {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	if err := errors.Join(s.killLocked(), os.RemoveAll(s.dir)); err != nil {
		fmt.Fprintf(os.Stderr, "redistest: close %s: %v\n", s.Addr(), err)
	}
	ports.release(s.port)
}
