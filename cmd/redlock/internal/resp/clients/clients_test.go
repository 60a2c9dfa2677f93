package clients

import (
	"bufio"
	"context"
	"crypto/sha1"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/lease"
	"github.com/redquorum/redquorum/cmd/redlock/internal/resp"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

// setNX is the program of many articles.
const setNX = "SETNX, EXPIRE, TTL, GET, DEL"

// event is that of the scheduler of Laravel.
const event = "a scheduled event withoutOverlapping"

// library is a client, how its program is started (the port comes last), and what it cannot do.
type library struct {
	name    string
	program []string
	extends bool   // it can extend a lock
	absent  string // why it cannot run here; "" if it can

	keyOf func(name string) string // of a lock, where it is not its name; else nil
}

// libraries returns all of them. What a machine lacks is skipped with the reason, or fails if
// CI=true.
func libraries(t *testing.T) []library {
	php, missingPHP := find("php", "-r", "class_exists('Redis') && stream_resolve_include_path('Predis/autoload.php') && stream_resolve_include_path('Illuminate/Redis/RedisManager.php') && stream_resolve_include_path('Illuminate/Queue/autoload.php') || exit(1);")
	python, missingPython := find("/usr/bin/python3", "-c", "import redis")
	ruby, missingRuby := find("ruby", "-e", "require 'redis'")
	script := func(name string) string { return filepath.Join("testdata", name) }
	all := []library{
		{"redis-py", []string{python, script("client.py"), "lock"}, true, missingPython, nil},
		{"redis-rb", []string{ruby, script("client.rb"), "script"}, true, missingRuby, nil},
		{"redis-rb with WATCH", []string{ruby, script("client.rb"), "watch"}, true, missingRuby, nil},
	}
	for _, kind := range []struct {
		name, kind string
		extends    bool
	}{
		{"phpredis", "phpredis", true},
		{"predis", "predis", true},
		{setNX, "setnx", true},
		{"WATCH, GET, MULTI, DEL, EXEC", "watch", true},
		{"a script that answers -1", "telling", false},
	} {
		all = append(all, library{kind.name, []string{php, script("client.php"), kind.kind}, kind.extends, missingPHP, nil})
	}
	all = append(all, laravel(php, missingPHP)...)
	modules, missingNode := nodeModules(t)
	for _, kind := range []string{"ioredis", "redlock5", "redlock4", "semaphore"} {
		l := library{kind, []string{"node", filepath.Join(modules, "client.js"), kind}, kind != "semaphore", missingNode, nil}
		if kind == "semaphore" {
			l.keyOf = func(name string) string { return "mutex:" + name }
		}
		all = append(all, l)
	}
	program, missingGo := goProgram(t)
	for _, kind := range []string{"redsync", "redislock"} {
		all = append(all, library{kind, []string{program, kind}, true, missingGo, nil})
	}
	return all
}

// laravel is Laravel as applications have it, on each of its two clients.
func laravel(php, missing string) (all []library) {
	for _, driver := range []string{"phpredis", "predis"} {
		for _, of := range []struct {
			name, kind string
			keyOf      func(name string) string
		}{
			{"Cache::lock", "lock", nil},
			{"the middleware WithoutOverlapping", "job", func(name string) string { return "laravel-queue-overlap:Job:" + name }},
			{event, "event", func(name string) string { return fmt.Sprintf("framework/schedule-%x", sha1.Sum([]byte(name))) }},
		} {
			program := []string{php, filepath.Join("testdata", "laravel.php"), of.kind, driver}
			all = append(all, library{of.name + " on " + driver, program, false, missing, of.keyOf})
		}
	}
	return all
}

// find returns a program, and why it is of no use: it is not there, or its client is not.
func find(program string, try ...string) (path, missing string) {
	path, err := exec.LookPath(program)
	if err != nil {
		return path, err.Error()
	}
	if out, err := exec.Command(path, try...).CombinedOutput(); err != nil {
		return path, fmt.Sprintf("%s lacks its client of Redis: %v %.200s", program, err, out)
	}
	return path, ""
}

// nodeModules has npm bring the clients of Node into a directory, beside their program.
func nodeModules(t *testing.T) (dir, missing string) {
	dir = t.TempDir()
	for _, name := range []string{"client.js", "package.json", "package-lock.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	cmd := exec.CommandContext(t.Context(), "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return dir, fmt.Sprintf("npm ci: %v %.200s", err, out)
	}
	return dir, ""
}

// goProgram builds the program of the nested module.
func goProgram(t *testing.T) (path, missing string) {
	path = filepath.Join(t.TempDir(), "golang")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".")
	cmd.Dir = "golang"
	if out, err := cmd.CombinedOutput(); err != nil {
		return path, fmt.Sprintf("go build: %v %.200s", err, out)
	}
	return path, ""
}

// server is a server of the fleet.
type server struct {
	t      *testing.T
	urls   []string
	port   int
	end    func()
	leases *lease.Leases
}

func startServer(t *testing.T, urls []string) *server {
	s := &server{t: t, urls: urls}
	s.start()
	t.Cleanup(func() { s.end() })
	return s
}

// start starts the server, at the port that it had before.
func (s *server) start() {
	s.t.Helper()
	locker := cluster.NewConnected(s.t, s.urls, redlock.WithNodeTimeout(2*time.Second)) // on a busy machine, too
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)))
	require.NoError(s.t, err)
	s.port = listener.Addr().(*net.TCPAddr).Port
	s.leases = lease.New(locker)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- resp.New(resp.Config{Leases: s.leases, Clock: clock.System(), DefaultTTL: 10 * time.Second}).Serve(ctx, listener)
	}()
	s.end = func() {
		cancel()
		assert.NoError(s.t, <-served)
		assert.NoError(s.t, locker.Close())
		s.end = func() {}
	}
}

func (s *server) restart() {
	s.end()
	s.start()
}

// client is a running program.
type client struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
}

func (l *library) start(t *testing.T, s *server) *client {
	t.Helper()
	cmd := exec.Command(l.program[0], append(l.program[1:len(l.program):len(l.program)], strconv.Itoa(s.port))...)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = t.Output()
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() //nolint:errcheck // however it ends
	})
	return &client{t, in, bufio.NewReader(out)}
}

// gone is the answer of a program that has ended.
const gone = "the program has ended"

// do returns what the program answers.
func (c *client) do(format string, args ...any) string {
	_, err := fmt.Fprintf(c.in, format+"\n", args...)
	if err != nil {
		return gone
	}
	line, err := c.out.ReadString('\n')
	if err != nil {
		return gone
	}
	return strings.TrimSpace(line)
}

func (c *client) is(want, format string, args ...any) {
	c.t.Helper()
	require.Equal(c.t, want, c.do(format, args...), format, args)
}

// eventually repeats a command while its connection is broken, or a lock is not free yet.
func (c *client) eventually(want, format string, args ...any) {
	c.t.Helper()
	cluster.Eventually(c.t, patience, func() string {
		if got := c.do(format, args...); got != want {
			return fmt.Sprintf(format, args...) + " says " + got
		}
		return ""
	})
}

const (
	patience = 20 * time.Second
	millis   = 20_000 // a TTL that no test waits for
)

// world is what a case has: masters, two servers, and a library.
type world struct {
	*testing.T
	library

	masters *cluster.Cluster
	a, b    *server
	name    string // of the lock of this case
}

func (w *world) left() time.Duration {
	key := w.name
	if w.keyOf != nil {
		key = w.keyOf(key)
	}
	holder, _, err := w.a.leases.Look(w.Context(), key)
	require.NoError(w, err)
	return holder.Remaining
}

// Each case with each library.
var cases = []struct {
	name string
	run  func(w *world)
}{
	{"exclusive, and released", func(w *world) {
		one, two := w.start(w.T, w.a), w.start(w.T, w.a)
		one.is("yes", "lock %s %d", w.name, millis)
		two.is("no", "lock %s %d", w.name, millis)
		one.is("yes", "unlock %s", w.name)
		two.is("yes", "lock %s %d", w.name, millis)
		two.is("yes", "unlock %s", w.name)
		cluster.RequireClean(w, w.masters.Masters...)
	}},
	{"extended", func(w *world) {
		one := w.start(w.T, w.a)
		one.is("yes", "lock %s %d", w.name, millis)
		before := w.left()
		if !w.extends {
			w.Skip("this library extends no lock")
		}
		one.is("yes", "extend %s %d", w.name, 2*millis)
		if w.library.name != "redsync" { // which takes no other TTL
			assert.Greater(w, w.left(), before+millis/2*time.Millisecond)
		}
		one.is("yes", "unlock %s", w.name)
	}},
	{"not released by a stranger", func(w *world) {
		one, two := w.start(w.T, w.a), w.start(w.T, w.b)
		one.is("yes", "lock %s %d", w.name, millis)
		assert.NotEqual(w, time.Duration(0), w.left())
		two.do("steal %s", w.name) // some libraries say no, others that it is free in any case
		two.is("no", "lock %s %d", w.name, millis)
		one.is("yes", "unlock %s", w.name)
	}},
	{"expired, and another's", func(w *world) {
		one, two := w.start(w.T, w.a), w.start(w.T, w.a)
		one.is("yes", "lock %s %d", w.name, 1000)
		two.eventually("yes", "lock %s %d", w.name, millis)
		one.do("unlock %s", w.name)
		one.is("no", "lock %s %d", w.name, millis)
		two.is("yes", "unlock %s", w.name)
	}},
	{"contended by 16", func(w *world) {
		var inside, turns atomic.Int32
		var all sync.WaitGroup
		for i := range 16 {
			c := w.start(w.T, []*server{w.a, w.b}[i%2])
			all.Go(func() {
				for got := "no"; got != "yes"; got = c.do("lock %s %d", w.name, millis) {
					if w.Context().Err() != nil || got == gone {
						return
					}
				}
				assert.Equal(w, int32(1), inside.Add(1), "two are inside")
				turns.Add(1)
				inside.Add(-1)
				assert.Equal(w, "yes", c.do("unlock %s", w.name))
			})
		}
		all.Wait()
		assert.Equal(w, int32(16), turns.Load())
	}},
	{"at two servers", func(w *world) {
		one, two := w.start(w.T, w.a), w.start(w.T, w.b)
		one.is("yes", "lock %s %d", w.name, millis)
		two.is("no", "lock %s %d", w.name, millis)
		one.is("yes", "unlock %s", w.name)
		two.is("yes", "lock %s %d", w.name, millis)
		one.is("no", "lock %s %d", w.name, millis)
		two.is("yes", "unlock %s", w.name)
	}},
	{"held while its server restarts", func(w *world) {
		one, two := w.start(w.T, w.a), w.start(w.T, w.b)
		one.is("yes", "lock %s %d", w.name, 2*millis)
		w.a.restart()
		two.is("no", "lock %s %d", w.name, millis)
		if strings.HasPrefix(w.library.name, event) { // whose DEL means one of the connection that is gone
			one.eventually("yes", "unlock %s", w.name)
			two.is("no", "lock %s %d", w.name, millis)
			return
		}
		if w.extends && w.library.name != setNX { // whose EXPIRE means a lock of the connection that is gone
			one.eventually("yes", "extend %s %d", w.name, 2*millis)
		}
		one.eventually("yes", "unlock %s", w.name)
		two.is("yes", "lock %s %d", w.name, millis)
		two.is("yes", "unlock %s", w.name)
	}},
	{"with a master dead", func(w *world) { // the last: the master stays away
		require.NoError(w, w.masters.Masters[2].Kill())
		one, two := w.start(w.T, w.a), w.start(w.T, w.b)
		one.is("yes", "lock %s %d", w.name, millis)
		two.is("no", "lock %s %d", w.name, millis)
		one.is("yes", "unlock %s", w.name)
		two.is("yes", "lock %s %d", w.name, millis)
		two.is("yes", "unlock %s", w.name)
	}},
}

func TestUnchangedProgramsLockOnAQuorum(t *testing.T) {
	if !virtual.Thorough() {
		t.Skip("it starts 500 programs, and npm brings some of them: make prove does, or REDQUORUM_PROVE=1")
	}
	masters := cluster.Start(t, 3)
	a, b := startServer(t, masters.URLs()), startServer(t, masters.URLs())
	all := libraries(t)
	for i, one := range cases {
		for j, l := range all {
			t.Run(l.name+"/"+one.name, func(t *testing.T) {
				if l.absent != "" && os.Getenv("CI") == "true" {
					t.Fatal("CI=true, and this client is missing: ", l.absent)
				} else if l.absent != "" {
					t.Skip("this client is missing: ", l.absent)
				}
				one.run(&world{t, l, masters, a, b, fmt.Sprintf("lock%d-%d", i, j)})
			})
		}
	}
}

func TestMain(m *testing.M) { cluster.Main(m) }
