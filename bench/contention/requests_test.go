package contention

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

func TestRequestsAreCountedHoweverTheyAreCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		commands := rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom([]string{
			"", "SET", "key", "*1\r\n$4\r\nPING\r\n", strings.Repeat("x", 130),
		}), 1, 12), 0, 6).Draw(t, "commands")
		var bytes strings.Builder
		for _, words := range commands {
			fmt.Fprintf(&bytes, "*%d\r\n", len(words))
			for _, word := range words {
				fmt.Fprintf(&bytes, "$%d\r\n%s\r\n", len(word), word)
			}
		}
		var stream requestStream
		got := 0
		for rest := []byte(bytes.String()); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "bytes written")
			counted, err := stream.feed(rest[:n])
			if err != nil {
				t.Fatal(err)
			}
			got, rest = got+counted, rest[n:]
		}
		if got != len(commands) {
			t.Fatalf("counted %d of %d commands", got, len(commands))
		}
	})
}

// TestCountedCommandsAreThoseThatTheServersGot compares with MONITOR, which marks what a script
// calls.
func TestCountedCommandsAreThoseThatTheServersGot(t *testing.T) {
	requireSupport(t)
	servers := redistest.Start(t, 3)
	var sent commandCounter
	setup := setupOn(servers)
	setup.Dial = sent.dial
	mutex, err := OpenRedquorum(t.Context(), setup)
	require.NoError(t, err)
	defer mutex.Close()
	start := now()
	sent.window(start, start.Add(time.Hour))
	var monitors []*redistest.Monitor
	for _, server := range servers {
		monitors = append(monitors, server.Monitor(t))
	}
	count := func() (clients, scripts int) {
		for _, monitor := range monitors {
			monitor.Sync()
			inScripts := len(monitor.Matching(" lua] "))
			scripts += inScripts
			clients += len(monitor.Lines()) - inScripts
		}
		return clients, scripts
	}
	// The monitors miss what was sent before they began: the handshakes and background checks. How
	// much that is, is known once nothing was sent or seen for a while.
	var missed, early uint64
	quiet := 0
	require.Eventually(t, func() bool {
		total := sent.total.Load()
		clients, _ := count()
		if m := total - uint64(clients); m != missed || sent.total.Load() != total {
			missed, quiet = m, 0
			return false
		}
		early = total - sent.inWindow.Load()
		quiet++
		return quiet > 10
	}, time.Minute, 20*time.Millisecond)

	for range 20 {
		unlock, err := mutex.Lock(t.Context())
		require.NoError(t, err)
		// Some rounds are refused.
		refused, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		_, err = mutex.Lock(refused)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()
		require.NoError(t, unlock(t.Context()))
	}
	var clients, scripts int
	assert.Eventually(t, func() bool {
		clients, scripts = count()
		total := sent.total.Load()
		return total-missed == uint64(clients) &&
			total-early == sent.inWindow.Load() // all were within the window
	}, time.Minute, 10*time.Millisecond)
	assert.Greater(t, clients, 20*2*len(servers), "a SET and a release each, and the refused ones")
	assert.Greater(t, scripts, 20*len(servers))
}

func TestCommandsOutsideTheWindowAreNotOfIt(t *testing.T) {
	requireSupport(t)
	var sent commandCounter
	sent.add(1)
	sent.window(now().Add(-2*time.Hour), now().Add(-time.Hour))
	sent.add(2)
	sent.window(now().Add(-time.Hour), now().Add(time.Hour))
	sent.add(4)
	assert.EqualValues(t, 7, sent.total.Load())
	assert.EqualValues(t, 4, sent.inWindow.Load())
}
