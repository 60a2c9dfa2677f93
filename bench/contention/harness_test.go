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

// small is a scenario that a busy machine finishes in a moment.
func small(mutex string) *Scenario {
	return &Scenario{
		Mutex: mutex, Processes: 2, Goroutines: 2, TTL: 10 * time.Second, Hold: time.Millisecond,
		WarmUp: 50 * time.Millisecond, Window: 300 * time.Millisecond,
	}
}

func TestMutexThatDoesNotExcludeFailsTheMeasurement(t *testing.T) {
	requireSupport(t)
	var err error
	for range 5 { // a machine that stands still may sleep through a window
		if _, err = small("broken").Run(); err != nil {
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

func TestProcessThatCannotDoItsWorkIsAnError(t *testing.T) {
	requireSupport(t)
	for mutex, parts := range map[string][]string{
		"dying":   {"exit status 3", "its last words"},
		"no-such": {`this program knows no mutex "no-such"`},
	} {
		_, err := small(mutex).Run()
		for _, part := range parts {
			require.ErrorContains(t, err, part)
		}
	}
}

func requireSupport(t *testing.T) {
	t.Helper()
	if !Supported {
		t.Skip("processes share no clock here")
	}
}

// setupOn is what a mutex is made with on some servers.
func setupOn(servers []*redistest.Server) Setup {
	return Setup{
		Addresses: addressesOf(servers), Name: "named", TTL: 10 * time.Second, Patience: 10 * time.Second,
		Dial: new(commandCounter).dial,
	}
}

func TestServerThatIsGoneIsAnError(t *testing.T) {
	requireSupport(t)
	servers := redistest.Start(t, 3)
	require.NoError(t, servers[0].Kill())
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := OpenRedquorum(ctx, setupOn(servers))
	require.ErrorIs(t, err, context.DeadlineExceeded, "a quorum is not enough to begin")
}

func TestATermOutlastsTheContextThatItWasWaitedForWith(t *testing.T) {
	requireSupport(t)
	setup := setupOn(redistest.Start(t, 1))
	first, err := OpenElection(t.Context(), setup)
	require.NoError(t, err)
	defer first.Close()
	second, err := OpenElection(t.Context(), setup)
	require.NoError(t, err)
	defer second.Close()

	ctx, cancel := context.WithCancel(t.Context())
	resign, err := first.Lock(ctx)
	require.NoError(t, err)
	cancel()
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = second.Lock(short)
	require.ErrorIs(t, err, context.DeadlineExceeded, "the first one leads")
	require.NoError(t, resign(t.Context()))
	resign, err = second.Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, resign(t.Context()))
}
