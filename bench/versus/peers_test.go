package versus

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// TestEveryPeerSetsAndDeletesEachKeyOnce is what the figures rest on: all peers make every server
// do the same work.
func TestEveryPeerSetsAndDeletesEachKeyOnce(t *testing.T) {
	t.Run("five servers", func(t *testing.T) { testWork(t, startServers(t), peers) })
	t.Run("one server", func(t *testing.T) {
		testWork(t, redistest.Start(t, 1), slices.Concat(peers, singlePeers))
	})
}

func testWork(t *testing.T, servers []*redistest.Server, entries []entry) {
	t.Helper()
	for _, c := range openPeers(t, servers, entries, manyGoroutines) {
		t.Run(c.name, func(t *testing.T) {
			var monitors []*redistest.Monitor
			for _, server := range servers {
				monitors = append(monitors, server.Monitor(t))
			}
			const goroutines, locks = 4, 10
			s, err := measure(t.Context(), &c, goroutines, newQuota(locks))
			if err != nil {
				t.Fatal(err)
			}
			if s.locks != locks {
				t.Errorf("got %d locks, want %d", s.locks, locks)
			}
			for i, monitor := range monitors {
				for _, name := range c.names[:locks] {
					awaitOnce(t, monitor, "set", name)
					awaitOnce(t, monitor, "del", name)
				}
				if keys, err := servers[i].Keys(); err != nil || len(keys) > 0 {
					t.Errorf("server %d: got keys %q, %v, want none", i, keys, err)
				}
			}
		})
	}
}

// commandTimeout bounds the wait for a command that the peer, having its quorum, did not wait for.
const commandTimeout = 5 * time.Second

// awaitOnce waits until the server has executed the command with the key, among others if it takes
// several, and fails if it did so more than once. MONITOR shows commands in the case in which they
// were sent; this one is in lower case.
func awaitOnce(t *testing.T, monitor *redistest.Monitor, command, key string) {
	t.Helper()
	for deadline := time.Now().Add(commandTimeout); ; time.Sleep(time.Millisecond) {
		monitor.Sync()
		times := 0
		for _, line := range monitor.Lines() {
			if line = strings.ToLower(line); strings.Contains(line, `] "`+command+`" `) && strings.Contains(line, ` "`+key+`"`) {
				times++
			}
		}
		if times == 1 {
			return
		}
		if times > 1 || time.Now().After(deadline) {
			t.Fatalf("%s %s: executed %d times, want once:\n%s", command, key, times, strings.Join(monitor.Lines(), "\n"))
		}
	}
}
