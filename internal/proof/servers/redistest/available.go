// Package redistest starts real Redis servers for tests and benchmarks, and breaks them: it stops,
// kills and restarts the processes ([Server]), and damages the bytes on the way to them ([Proxy]).
// [FakeServer] says what no Redis would ever say.
//
// It uses real processes, sockets and time, so none of it works inside a testing/synctest bubble.
package redistest

import (
	"os"
	"os/exec"
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
