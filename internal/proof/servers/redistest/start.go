package redistest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
)

// Start starts n empty servers on [Host], in parallel, and returns once all of them answer PING.
// It skips or fails the test if there is no redis-server (see [Require]). The servers end with the
// test; on Linux they also end when this process is killed.
func Start(tb testing.TB, n int, opts ...Option) []*Server {
	tb.Helper()
	Require(tb)
	servers, stop, err := Launch(n, opts...)
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			logCrashes(tb, servers)
		}
		stop()
	})
	return servers
}

// StartOne is [Start] for a single server.
func StartOne(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	return Start(tb, 1, opts...)[0]
}

// Launch is [Start] for programs that are not tests. The function it returns kills the servers and
// removes their directories; it may be called more than once, and is never nil. On an error nothing
// is left running.
func Launch(n int, opts ...Option) ([]*Server, func(), error) {
	if !Available() {
		return nil, func() {}, fmt.Errorf("%s: not in PATH, or not executable", program())
	}
	servers, errs := make([]*Server, n), make([]error, n)
	var starts sync.WaitGroup
	for i := range servers {
		starts.Go(func() { servers[i], errs[i] = newServer(newConfig(opts)) })
	}
	starts.Wait()
	stop := sync.OnceFunc(func() {
		for _, server := range servers {
			if server != nil {
				server.close()
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		stop()
		return nil, func() {}, err
	}
	return servers, stop, nil
}

// logCrashes logs the last lines of every server that ended without being killed.
func logCrashes(tb testing.TB, servers []*Server) {
	tb.Helper()
	for _, server := range servers {
		if process := server.process.Load(); !process.running() && !process.killed.Load() {
			tb.Logf("redistest: server %s ended by itself (%v), its last lines:\n%s",
				server.Addr(), process.exit, process.lastLines())
		}
	}
}
