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

// program is what is started; looked for in PATH.
const program = "redis-server"

// Available reports whether there is a redis-server in PATH.
func Available() bool {
	_, err := exec.LookPath(program)
	return err == nil
}

// Require skips the test when there is no redis-server in PATH. Where CI=true it fails the test instead: a test that
// nobody runs proves nothing.
func Require(tb testing.TB) {
	tb.Helper()
	if Available() {
		return
	}
	if os.Getenv("CI") == "true" {
		tb.Fatalf("redistest: no %s in PATH, and CI=true: install it, so that this test is not skipped unseen", program)
	}
	tb.Skipf("redistest: no %s in PATH: install Redis to run this test", program)
}
