// Package redistest starts real Redis servers for tests and benchmarks, and breaks them: it stops,
// kills and restarts the processes ([Server]), and damages the bytes on the way to them ([Proxy]).
//
// It uses real processes, sockets and time, so none of it works inside a testing/synctest bubble.
package redistest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// programVariable is the environment variable that names the executable of the server under test.
const programVariable = "REDQUORUM_SERVER"

// program returns what to start: the path in REDQUORUM_SERVER, else the redis-server in PATH.
func program() string {
	if chosen := os.Getenv(programVariable); chosen != "" {
		return chosen
	}
	return "redis-server"
}

// Available reports whether there is a server to start: the one that REDQUORUM_SERVER names, or
// else a redis-server in PATH.
func Available() bool {
	_, err := exec.LookPath(program())
	return err == nil
}

// Require skips the test if there is no redis-server in PATH. If CI=true, or if REDQUORUM_SERVER
// names a server, it fails the test instead: a test that nobody runs proves nothing.
func Require(tb testing.TB) {
	tb.Helper()
	if Available() {
		return
	}
	if chosen := os.Getenv(programVariable); chosen != "" {
		tb.Fatalf("redistest: %s is %s, which cannot be executed", programVariable, chosen)
	}
	if os.Getenv("CI") == "true" {
		tb.Fatal("redistest: no redis-server in PATH, and CI=true: install it, so that this test is not skipped unseen")
	}
	tb.Skip("redistest: no redis-server in PATH: install Redis to run this test")
}

// Option is a setting of the servers to start.
type Option func(*config)

type config struct {
	args       []string
	env        []string
	user       string
	password   string
	unixSocket bool
	sentinel   bool
	namespace  string
	host       string
	pickPort   func() (int, error) // replaced in our own tests only
}

// WithArgs adds arguments to redis-server's command line. They come last, so they override our own:
// WithArgs("--appendonly", "yes", "--appendfsync", "always") makes a server whose keys survive a
// restart.
func WithArgs(args ...string) Option {
	return func(c *config) { c.args = append(c.args, args...) }
}

// Directives returns those of the text of a configuration file as [WithArgs] takes them, without
// some that are the test's own.
func Directives(text string, without ...string) (args []string) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") || slices.Contains(without, words[0]) {
			continue
		}
		args = append(args, "--"+words[0])
		for _, word := range words[1:] {
			args = append(args, strings.Trim(word, `"`))
		}
	}
	return args
}

// WithEnv adds "NAME=value" variables to the servers' environment. They override those of this
// process.
func WithEnv(env ...string) Option {
	return func(c *config) { c.env = append(c.env, env...) }
}

// FakeTime returns the environment of a process whose wall clock is wrong as libfaketime says it:
// "+10s", "-30s x1.003". It returns nil where there is no libfaketime.
func FakeTime(wrong string) []string {
	const library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
	if _, err := os.Stat(library); err != nil {
		return nil
	}
	return []string{
		"LD_PRELOAD=" + library + ":/lib/x86_64-linux-gnu/libc.so.6", "FAKETIME=" + wrong, "FAKETIME_NO_CACHE=1", "DONT_FAKE_MONOTONIC=1",
	}
}

// WithPassword makes the servers require this password. [Server.URL] contains it, and our own
// connections use it.
func WithPassword(password string) Option {
	return func(c *config) { c.password = password }
}

// WithUsers gives the servers these users, lines of an ACL file, of which our own connections, and
// [Server.URL], use one.
func WithUsers(tb testing.TB, lines, user, password string) Option {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "users.acl")
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	return func(c *config) {
		c.user, c.password = user, password
		c.args = append(c.args, "--aclfile", file)
	}
}

// WithUnixSocket makes the servers also listen on a unix socket: [Server.Socket].
func WithUnixSocket() Option {
	return func(c *config) { c.unixSocket = true }
}

// WithNamespace starts the servers in a network namespace (ip-netns), where they listen on the
// host.
func WithNamespace(namespace, host string) Option {
	return func(c *config) { c.namespace, c.host = namespace, host }
}

// WithSentinel starts Sentinels, which watch nothing, instead of servers.
func WithSentinel() Option {
	return func(c *config) { c.sentinel = true }
}

// Start starts n empty servers on [Host], in parallel, and returns once all of them answer PING. It
// skips or fails the test if there is no redis-server (see [Require]). The servers end with the
// test; on Linux they also end when this process is killed.
func Start(tb testing.TB, n int, opts ...Option) []*Server {
	tb.Helper()
	Require(tb)
	servers, errs := make([]*Server, n), make([]error, n)
	var starts sync.WaitGroup
	for i := range servers {
		c := config{pickPort: pickPort}
		for _, opt := range opts {
			opt(&c)
		}
		starts.Go(func() { servers[i], errs[i] = newServer(c) })
	}
	starts.Wait()
	tb.Cleanup(func() {
		for _, server := range servers {
			if server != nil {
				server.end(tb)
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	return servers
}

// StartOne is [Start] for a single server.
func StartOne(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	return Start(tb, 1, opts...)[0]
}
