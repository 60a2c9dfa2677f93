package contention

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// TestMain is also the main function of the worker processes.
func TestMain(m *testing.M) {
	RunWorker(map[string]Opener{"redquorum": OpenRedquorum, "broken": openBroken, "dying": openDying})
	os.Exit(m.Run())
}

// broken is a mutex that everybody gets at once.
type broken struct{}

func openBroken(context.Context, Setup) (Mutex, error) { return broken{}, nil }

func (broken) Lock(context.Context) (func(context.Context) error, error) {
	return func(context.Context) error { return nil }, nil
}

func (broken) Counters() map[string]uint64 { return nil }
func (broken) Close() error                { return nil }

// dying ends the process instead of locking.
type dying struct{ broken }

func openDying(context.Context, Setup) (Mutex, error) { return dying{}, nil }

func (dying) Lock(context.Context) (func(context.Context) error, error) {
	fmt.Fprintln(os.Stderr, "its last words")
	os.Exit(3)
	return nil, nil
}

func requireSupport(t *testing.T) {
	t.Helper()
	if !Supported {
		t.Skip("processes share no clock here")
	}
}

// small is a scenario that a busy machine finishes in a moment.
func small(mutex string, servers []*redistest.Server) *Scenario {
	return &Scenario{
		Mutex: mutex, Servers: servers, Processes: 2, Goroutines: 2, TTL: 10 * time.Second,
		WarmUp: 50 * time.Millisecond, Window: 300 * time.Millisecond,
	}
}

func TestMutexThatDoesNotExcludeFailsTheMeasurement(t *testing.T) {
	requireSupport(t)
	s := small("broken", nil)
	s.Hold = time.Millisecond
	var err error
	for range 5 { // a machine that stands still may sleep through a window
		if _, err = s.Run(); err != nil {
			break
		}
	}
	var overlap *OverlapError
	require.ErrorAs(t, err, &overlap)
	require.Less(t, overlap.Second.Acquired, overlap.First.Released)
}

func TestMutexThatDoesNotExcludeFailsTheCrash(t *testing.T) {
	requireSupport(t)
	c := Crash{Mutex: "broken", Waiters: 1, Kills: 1, TTL: 100 * time.Millisecond, Settle: 200 * time.Millisecond}
	_, err := c.Run()
	require.ErrorContains(t, err, "while the name was held")
}

func TestProcessThatEndsEarlyIsAnError(t *testing.T) {
	requireSupport(t)
	_, err := small("dying", nil).Run()
	require.ErrorContains(t, err, "exit status 3")
	require.ErrorContains(t, err, "its last words")
}

func TestUnknownMutexIsAnError(t *testing.T) {
	requireSupport(t)
	_, err := small("no-such", nil).Run()
	require.ErrorContains(t, err, `this program knows no mutex "no-such"`)
}

func TestServerThatIsGoneIsAnError(t *testing.T) {
	requireSupport(t)
	servers := redistest.Start(t, 3)
	require.NoError(t, servers[0].Kill())
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var sent commandCounter
	_, err := OpenRedquorum(ctx, Setup{Addresses: addressesOf(servers), Name: "gone", TTL: time.Second, Dial: sent.dial})
	require.ErrorIs(t, err, context.DeadlineExceeded, "a quorum is not enough to begin")
}
