package redistest

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redquorum/redquorum/internal/proof/servers/child"
)

const (
	// startTimeout bounds the wait for the first PONG. That takes 10 ms, but longer on a loaded
	// machine or with a large AOF.
	startTimeout = time.Minute
	// startPoll is the pause between two probes of a starting server.
	startPoll = 3 * time.Millisecond
	// probeTimeout bounds each reply to a probe: what has taken the port may be mute.
	probeTimeout = 500 * time.Millisecond
	// startAttempts bounds how often a server is started: another process may take the port each
	// time.
	startAttempts = 5
	// lastLineCount is how many lines of a server's output an error shows: enough for Redis's
	// reason, but not for its stack dump.
	lastLineCount = 20
)

var errPortTaken = errors.New("another process took the port")

// Server is a redis-server process with a port and a directory of its own. Its methods may be
// called from any goroutine.
type Server struct {
	config  config
	dir     string
	port    int
	process atomic.Pointer[child.Process] // the current or the last run

	lifecycle sync.Mutex // serializes Stop, Continue, Kill, Restart and end; held while they wait
	over      bool       // guarded by lifecycle
}

// newServer starts a server, on another port if another process takes the chosen one first.
func newServer(config config) (*Server, error) {
	parent := "" // TMPDIR
	if config.unixSocket {
		parent = "/tmp" // TMPDIR may be longer than the path of a socket can be: 107 bytes, or 103
	}
	dir, err := os.MkdirTemp(parent, "redistest-")
	if err != nil {
		return nil, err
	}
	s := &Server{config: config, dir: dir}
	for range startAttempts {
		if s.port, err = config.pickPort(); err != nil {
			break
		}
		if err = s.start(); err == nil {
			return s, nil
		}
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	return nil, errors.Join(err, os.RemoveAll(dir))
}

// Addr returns the server's host:port. Restarts do not change it.
func (s *Server) Addr() string { return net.JoinHostPort(s.host(), strconv.Itoa(s.port)) }

func (s *Server) host() string { return cmp.Or(s.config.host, Host()) }

// URL returns the server as redis://host:port, with the password if there is one.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", Host: s.Addr()}
	if s.config.password != "" {
		u.User = url.UserPassword(s.config.user, s.config.password)
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
	if process := s.process.Load(); process.Running() {
		return process.Pid()
	}
	return 0
}

// Stop sends SIGSTOP and returns once the process has stopped. The kernel goes on accepting
// connections and bytes for it, and the server executes all of them after [Server.Continue]. On
// systems other than Linux it returns [errors.ErrUnsupported].
func (s *Server) Stop() error { return s.signal("stop", (*child.Process).Stop) }

// Continue sends SIGCONT: the server goes on after a [Server.Stop]. On systems other than Linux it
// returns [errors.ErrUnsupported].
func (s *Server) Continue() error { return s.signal("continue", (*child.Process).Continue) }

func (s *Server) signal(name string, send func(*child.Process) error) error {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	if err := send(s.process.Load()); err != nil {
		return fmt.Errorf("%s %s: %w", name, s.Addr(), err)
	}
	return nil
}

// Kill sends SIGKILL, to a stopped process too, and returns once the process is gone. Killing a
// dead server does nothing.
func (s *Server) Kill() error {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	return s.process.Load().Kill()
}

// Forget deletes what a killed server has on disk, so that it restarts empty.
func (s *Server) Forget() error { return os.RemoveAll(filepath.Join(s.dir, "appendonlydir")) }

// Restart kills the server if it runs, and starts it on the same port and in the same directory. It
// is empty unless persistence is configured. Restart returns once the server answers.
func (s *Server) Restart() error { return s.RestartWith() }

// RestartWith is [Server.Restart] with more arguments, which later restarts keep.
func (s *Server) RestartWith(args ...string) error {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	if s.over {
		return fmt.Errorf("restart %s: its test is over", s.Addr())
	}
	if err := s.process.Load().Kill(); err != nil {
		return err
	}
	s.config.args = append(slices.Clone(s.config.args), args...)
	return s.start()
}

// end ends the server with its test. If the test has failed, it shows the last lines of a server
// that ended without being killed.
func (s *Server) end(tb testing.TB) {
	tb.Helper()
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	s.over = true
	process := s.process.Load()
	if tb.Failed() && !process.Running() && !process.Killed() {
		tb.Logf("redistest: server %s ended by itself (%v), its last lines:\n%s", s.Addr(), process.Exit(), s.lastLines())
	}
	if err := errors.Join(process.Kill(), os.RemoveAll(s.dir)); err != nil {
		tb.Logf("redistest: end %s: %v", s.Addr(), err)
	}
}

// start starts a process and waits until it answers. On an error no process is left.
func (s *Server) start() error {
	process, err := s.launch()
	if err != nil {
		return fmt.Errorf("start %s: %w", s.Addr(), err)
	}
	s.process.Store(process)
	if err := s.awaitReady(process); err != nil {
		err = errors.Join(err, process.Kill())
		return fmt.Errorf("start %s: %w; its last lines:\n%s", s.Addr(), err, s.lastLines())
	}
	return nil
}

func (s *Server) launch() (*child.Process, error) {
	if s.config.sentinel { // it stores in its file what it knows
		if err := os.WriteFile(s.sentinelFile(), nil, 0o600); err != nil {
			return nil, err
		}
	}
	output, err := os.Create(s.outputFile())
	if err != nil {
		return nil, err
	}
	defer closeQuietly(output) // the child has its own descriptor
	command := exec.Command(program(), s.arguments()...)
	if s.config.namespace != "" { // ip becomes the server, so the process is ours to signal
		command = exec.Command("ip", slices.Concat([]string{"netns", "exec", s.config.namespace}, command.Args)...)
	}
	command.Dir = s.dir
	command.Env = slices.Concat(os.Environ(), s.config.env)
	command.Stdout, command.Stderr = output, output
	return child.Launch(command)
}

func (s *Server) sentinelFile() string { return filepath.Join(s.dir, "sentinel.conf") }

func (s *Server) outputFile() string { return filepath.Join(s.dir, "output.log") }

func (s *Server) arguments() []string {
	var args []string
	if s.config.sentinel {
		args = append(args, s.sentinelFile(), "--sentinel")
	}
	args = append(args,
		"--port", strconv.Itoa(s.port), "--bind", s.host(), "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no", "--loglevel", "warning",
	)
	if s.config.password != "" && s.config.user == "" {
		args = append(args, "--requirepass", s.config.password)
	}
	if s.config.unixSocket {
		args = append(args, "--unixsocket", s.Socket())
	}
	if s.config.namespace != "" { // there is no way to it but from here
		args = append(args, "--protected-mode", "no")
	}
	return append(args, s.config.args...)
}

func (s *Server) awaitReady(process *child.Process) error {
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(startPoll) {
		if !process.Running() {
			if strings.Contains(s.lastLines(), "Address already in use") {
				return errPortTaken
			}
			return fmt.Errorf("it ended at once (%w)", process.Exit())
		}
		err := s.probe(process.Pid())
		if err == nil || errors.Is(err, errPortTaken) {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no answer within %v: %w", startTimeout, err)
		}
	}
}

// probe checks that the server answers and that it is ours: another process that took the port may
// be a Redis too.
func (s *Server) probe(pid int) error {
	conn, err := s.dial(probeTimeout)
	if err != nil {
		return err
	}
	defer closeQuietly(conn)
	_, err = conn.Do("PING")
	var refusal redis.Error
	if errors.As(err, &refusal) {
		if strings.HasPrefix(string(refusal), "LOADING") {
			return err
		}
		return nil // NOAUTH or similar: it answers, and tells us no more
	}
	if err != nil {
		return err
	}
	info, err := redis.String(conn.Do("INFO", "server"))
	if err == nil && !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", pid)) {
		return errPortTaken
	}
	return err
}

// lastLines returns the end of the output of the current or last process.
func (s *Server) lastLines() string {
	text, err := os.ReadFile(s.outputFile())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-lastLineCount):], "\n")
}
