package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	// startTimeout bounds the wait for the first PONG. That takes 10 ms, but longer on a loaded
	// machine or with a large AOF.
	startTimeout = 15 * time.Second
	// startPoll is the pause between two probes of a starting server.
	startPoll = 3 * time.Millisecond
	// startAttempts bounds how often a server is started: another process may take the port each
	// time.
	startAttempts = 5
)

var errPortTaken = errors.New("another process took the port")

// start starts a process and waits until it answers. On an error no process is left.
func (s *Server) start() error {
	if err := s.configure(); err != nil {
		return err
	}
	command := exec.Command(program(), s.arguments()...)
	command.Dir = s.dir
	command.Env = slices.Concat(os.Environ(), s.config.env)
	process, err := startProcess(command, filepath.Join(s.dir, "output.log"))
	if err != nil {
		return fmt.Errorf("start %s: %w", s.Addr(), err)
	}
	s.process.Store(process)
	if err := s.awaitReady(process); err != nil {
		err = errors.Join(err, process.kill())
		return fmt.Errorf("start %s: %w; its last lines:\n%s", s.Addr(), err, process.lastLines())
	}
	return nil
}

// configure writes the file that a Sentinel requires: it stores there what it knows.
func (s *Server) configure() error {
	if !s.config.sentinel {
		return nil
	}
	return os.WriteFile(s.sentinelFile(), nil, 0o600)
}

func (s *Server) sentinelFile() string { return filepath.Join(s.dir, "sentinel.conf") }

func (s *Server) arguments() []string {
	var args []string
	if s.config.sentinel {
		args = append(args, s.sentinelFile(), "--sentinel")
	}
	args = append(args,
		"--port", strconv.Itoa(s.port), "--bind", Host(), "--dir", s.dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no", "--loglevel", "warning",
	)
	if s.config.password != "" {
		args = append(args, "--requirepass", s.config.password)
	}
	if s.config.unixSocket {
		args = append(args, "--unixsocket", s.Socket())
	}
	return append(args, s.config.args...)
}

func (s *Server) awaitReady(process *process) error {
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(startPoll) {
		if !process.running() {
			if strings.Contains(process.lastLines(), "Address already in use") {
				return errPortTaken
			}
			return fmt.Errorf("it ended at once (%w)", process.exit)
		}
		err := s.probe(process.pid())
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
	conn, err := s.dial()
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
