package admin_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/door"
	"github.com/redquorum/redquorum/internal/journal"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// operations are the calls that ask the masters for an operator.
var operations = map[string]func(*redlock.Locker, context.Context) error{
	"Members": func(l *redlock.Locker, ctx context.Context) error {
		_, err := admin.Of(l).Cluster().Members(ctx)
		return err
	},
	"Add": func(l *redlock.Locker, ctx context.Context) error { return add(3)(admin.Of(l).Cluster(), ctx) },
	"Remove": func(l *redlock.Locker, ctx context.Context) error {
		return admin.Of(l).Cluster().Remove(ctx, virtual.MemberID("node0:6379"))
	},
	"SetMaxTTL": func(l *redlock.Locker, ctx context.Context) error {
		return admin.Of(l).Cluster().SetMaxTTL(ctx, 2*virtual.MaxTTL)
	},
	"Init":       func(l *redlock.Locker, ctx context.Context) error { return admin.Of(l).Init(ctx, false) },
	"Init force": func(l *redlock.Locker, ctx context.Context) error { return admin.Of(l).Init(ctx, true) },
	"Ready":      (*redlock.Locker).Ready,
	"Inspect": func(l *redlock.Locker, ctx context.Context) error {
		_, err := admin.Of(l).Inspect(ctx, "a")
		return err
	},
	"InspectSemaphore": func(l *redlock.Locker, ctx context.Context) error {
		_, err := admin.Of(l).InspectSemaphore(ctx, "a")
		return err
	},
	"ForceUnlock": func(l *redlock.Locker, ctx context.Context) error { return admin.Of(l).ForceUnlock(ctx, "a") },
	"log written": func(l *redlock.Locker, ctx context.Context) error {
		return door.Of(l).WriteLog(ctx, journal.Entry{Kind: journal.Forced})
	},
	"log read": func(l *redlock.Locker, ctx context.Context) error {
		_, err := door.Of(l).ReadLog(ctx, "")
		return err
	},
	"terms read": func(l *redlock.Locker, ctx context.Context) error {
		_, err := door.Of(l).ReadTerms(ctx, "a", 0, 10)
		return err
	},
}

// What may be wrong with masters while they are asked.
var wrongs = map[string]func(*cluster){
	"one silent": func(c *cluster) { c.Each(virtual.Stop, 2) },
	"all silent": func(c *cluster) { c.Each(virtual.Stop) },
	"all slow":   func(c *cluster) { c.Slow(700 * time.Millisecond) },
	"one down":   func(c *cluster) { c.Each(virtual.Kill, 2); time.Sleep(time.Second) },
	"all down":   func(c *cluster) { c.Each(virtual.Kill); time.Sleep(time.Second) },
}

// eachOperation runs a test for each call and each state of three masters; a spare one may be
// added.
func eachOperation(t *testing.T, test func(c *cluster, l *redlock.Locker, call func(context.Context) error)) {
	t.Helper()
	for name, operation := range operations {
		for state, wrong := range wrongs {
			runCluster(t, name+"/"+state, 3, 1, func(t *testing.T, c *cluster) {
				l := c.Among([]int{0, 1, 2})
				time.Sleep(3 * virtual.MaxTTL) // changes need not wait
				wrong(c)
				test(c, l, func(ctx context.Context) error { return operation(l, ctx) })
				c.Each(virtual.Resume)
			})
		}
	}
}

func TestAnOperationDoesNotBeginWithAContextThatEnded(t *testing.T) {
	ended, cancel := context.WithCancelCause(ctx)
	cancel(errors.New("enough"))
	eachOperation(t, func(c *cluster, _ *redlock.Locker, call func(context.Context) error) {
		before := slices.Clone(c.places())
		began := time.Now()
		err := call(ended)
		assert.Less(c.T, time.Since(began), time.Millisecond)
		require.ErrorIs(c.T, err, context.Canceled)
		require.ErrorContains(c.T, err, "enough")
		assert.Equal(c.T, before, c.places())
	})
}

func TestAnOperationEndsWithItsContext(t *testing.T) {
	eachOperation(t, func(c *cluster, _ *redlock.Locker, call func(context.Context) error) {
		began := time.Now()
		err := call(c.Within(300 * time.Millisecond))
		assert.LessOrEqual(c.T, time.Since(began), 301*time.Millisecond)
		if time.Since(began) >= 300*time.Millisecond {
			assert.True(c.T, err == nil || errors.Is(err, context.DeadlineExceeded), "%v", err)
		}
	})
}

func TestAnOperationEndsWithItsLocker(t *testing.T) {
	eachOperation(t, func(c *cluster, l *redlock.Locker, call func(context.Context) error) {
		done := c.Ending(func() error { return call(ctx) })
		time.Sleep(300 * time.Millisecond)
		under := len(done) == 0
		began := time.Now()
		require.NoError(c.T, l.Close())
		assert.Less(c.T, time.Since(began), time.Millisecond)
		if err := <-done; under {
			require.ErrorIs(c.T, err, redlock.ErrClosed)
		}
		require.ErrorIs(c.T, call(ctx), redlock.ErrClosed)
	})
}

// places returns the markers and registers of all masters.
func (c *cluster) places() (texts []string) {
	for _, server := range c.Servers {
		for _, key := range []string{pipeline.MemoryKey, pipeline.RegisterKey} {
			text, _, _ := server.Get(key)
			texts = append(texts, text)
		}
	}
	return texts
}

// The nodes stay open: only what the Locker itself does can end.
func TestCloseEndsAllThatConcernsMembers(t *testing.T) {
	for at := range 40 { // points of connecting, of the confirmation, and of forming and telling a cluster
		for _, cut := range []bool{false, true} {
			t.Run(fmt.Sprint(at, cut), func(t *testing.T) {
				inYoungBubble(t, 3, func(t *testing.T, c *cluster) {
					c.Slow(200 * time.Millisecond)
					var nodes []*pool.Node
					for _, endpoint := range c.Servers.Endpoints() {
						node, err := pool.NewNode("redis://"+endpoint, pool.WithClock(c.Clock), pool.WithDialer(c.Dialer()))
						require.NoError(t, err)
						defer node.Close()
						nodes = append(nodes, node)
					}
					l, err := redlock.NewFromNodes(nodes)
					require.NoError(t, err)
					time.Sleep(time.Duration(50*at) * time.Millisecond)
					if cut { // what is asked now waits for a connection
						c.Servers[1].Disconnect()
						time.Sleep(100 * time.Millisecond)
					}
					require.NoError(t, l.Close())
					stacks := make([]byte, 1<<20)
					for stack := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
						if !strings.Contains(stack, "pipeline.tell(") { // a node's reader, whose answer comes to nothing now
							assert.NotContains(t, stack, "members.(*")
						}
					}
					closed := c.Clock.Now()
					time.Sleep(5 * time.Second)
					for i, server := range c.Servers {
						for _, cmd := range server.Commands() {
							sent := cmd.At.Add(-100 * time.Millisecond)
							late := sent > closed && len(cmd.Args) > 3 && strings.HasPrefix(cmd.Args[0], "EVAL") && cmd.Args[3] == pipeline.MemoryKey
							assert.False(t, late, "sent to master %d, %v after Close: %.90q", i, sent.Sub(closed), cmd.Args)
						}
					}
				})
			})
		}
	}
}
