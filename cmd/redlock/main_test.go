package main

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/redlock"
)

func TestMain(m *testing.M) {
	clitest.Main(m, func() *cobra.Command { return newRoot(os.Args[1:]...) }, nil)
}

// line runs a command line.
func line(args ...string) (status int, stdout, stderr string) {
	return clitest.Line(newRoot(args...), args...)
}

func TestACommandHasTheNameByWhichItIsMade(t *testing.T) {
	for name, make := range subcommands {
		assert.Equal(t, name, make().Name())
	}
	assert.Len(t, newRoot("run", "--help").Commands(), 1)
	assert.Len(t, newRoot("help", "run").Commands(), len(subcommands))
}

// fleet is masters, and a Locker that has connected to all of them.
type fleet struct {
	t       *testing.T
	servers []*redistest.Server
	flags   []string // that name them
	locker  *redlock.Locker
}

// startNew starts masters that nobody has used.
func startNew(t *testing.T) *fleet {
	t.Helper()
	return fleetOf(t, redistest.Start(t, 3))
}

func fleetOf(t *testing.T, servers []*redistest.Server) *fleet {
	return &fleet{t: t, servers: servers, flags: []string{"--nodes", strings.Join(clitest.URLs(servers), ",")}}
}

// start starts masters that vote.
func start(t *testing.T, opts ...redlock.Option) *fleet {
	t.Helper()
	f := startNew(t)
	f.open(opts...)
	cluster.RequireUp(t, f.locker, func(n redlock.NodeStats) bool { return n.Barred == nil && n.RunID != "" })
	return f
}

// open opens the Locker.
func (f *fleet) open(opts ...redlock.Option) {
	f.t.Helper()
	opts = append([]redlock.Option{redlock.WithTTL(time.Minute), redlock.WithNodeTimeout(10 * time.Second)}, opts...)
	var err error
	f.locker, err = redlock.New(clitest.URLs(f.servers), opts...)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { assert.NoError(f.t, f.locker.Close()) })
}

// line runs a command line about these masters.
func (f *fleet) line(args ...string) (status int, stdout, stderr string) {
	return line(slices.Concat(args[:1], f.flags, args[1:])...)
}

// inspect returns what inspect tells, as JSON and then as text.
func (f *fleet) inspect(args ...string) (status int, i survey.Inspection, text string) {
	f.t.Helper()
	args = append([]string{"inspect"}, args...)
	_, encoded, stderr := f.line(append(args, "--json")...)
	require.NoError(f.t, json.Unmarshal([]byte(encoded), &i), encoded+stderr)
	status, text, _ = f.line(args...)
	return status, i, text
}

// list returns what list tells, as JSON and then as text.
func (f *fleet) list(args ...string) (status int, list survey.Listing, text, stderr string) {
	f.t.Helper()
	args = append([]string{"list"}, args...)
	_, encoded, stderr := f.line(append(args, "--json")...)
	require.NoError(f.t, json.Unmarshal([]byte(encoded), &list), encoded+stderr)
	status, text, stderr = f.line(args...)
	return status, list, text, stderr
}

// set stores a value on some masters.
func (f *fleet) set(nodes int, key, value string, options ...any) {
	f.t.Helper()
	for _, s := range f.servers[:nodes] {
		_, err := s.Do("SET", append([]any{key, value}, options...)...)
		require.NoError(f.t, err)
	}
}

// kill kills masters, when all releases are delivered.
func (f *fleet) kill(nodes ...int) {
	f.t.Helper()
	require.NoError(f.t, f.locker.Close())
	for _, node := range nodes {
		require.NoError(f.t, f.servers[node].Kill())
	}
}

// queue waits for a lock that somebody holds, until it is called off.
func (f *fleet) queue(lock func(ctx context.Context) (*redlock.Lock, error)) (callOff func()) {
	waiting, stop := context.WithCancel(f.t.Context())
	waited := make(chan error, 1)
	go func() {
		_, err := lock(waiting)
		waited <- err
	}()
	return func() {
		f.t.Helper()
		stop()
		require.ErrorIs(f.t, <-waited, context.Canceled)
	}
}

// lead leads an election until it is told to resign.
func (f *fleet) lead(name, id string) (term int64, resign func()) {
	f.t.Helper()
	e, err := election.New(f.locker, name, election.WithID(id))
	require.NoError(f.t, err)
	led, over, done := make(chan int64), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- e.Run(f.t.Context(), func(ctx context.Context, term int64) error {
			led <- term
			select {
			case <-over:
			case <-ctx.Done(): // as the test does
			}
			return nil
		})
	}()
	return <-led, func() {
		f.t.Helper()
		close(over)
		require.NoError(f.t, <-done)
	}
}
