// Package redistest starts real Redis servers for tests and benchmarks, and breaks them: it stops, kills and restarts
// the processes ([Server]), and damages the bytes on the way to them ([Proxy]). For what no Redis would ever say there
// is [FakeServer].
//
// It works on real processes, sockets and time, so nothing of it works inside a testing/synctest bubble.
package redistest

import (
	"os"
	"os/exec"
	"testing"
)

// programVariable names the environment variable with the executable of the server under test.
const programVariable = "REDQUORUM_SERVER"

// program returns what is started: the path in REDQUORUM_SERVER, else the redis-server in PATH.
func program() string {
	if chosen := os.Getenv(programVariable); chosen != "" {
		return chosen
	}
	return "redis-server"
}

// Available reports whether there is a server to start: a redis-server in PATH, or what
// REDQUORUM_SERVER names.
func Available() bool {
	_, err := exec.LookPath(program())
	return err == nil
}

// Require skips the test when there is no redis-server in PATH. Where CI=true, or REDQUORUM_SERVER
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
