package pipeline

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/fake"
)

func TestCloseEndsASubscriptionInEveryState(t *testing.T) {
	for name, prepare := range map[string]func(h *harness){
		"dialing":         func(h *harness) { h.server.Mute(true) },
		"being confirmed": func(h *harness) { h.server.Stop() },
		"idle":            func(*harness) {},
		"between dials":   func(h *harness) { h.server.Kill() },
		"refused":         func(h *harness) { h.server.RefuseWith("NOPERM no", "SUBSCRIBE") },
	} {
		for _, byNode := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " by node ", byNode), func(t *testing.T) {
				inBubble(t, func(h *harness) {
					h.up()
					prepare(h)
					e := newRecorder()
					s := h.node.Subscribe(testChannel, e)
					synctest.Wait()
					began := time.Now()
					if byNode {
						require.NoError(t, h.node.Close())
					} else {
						require.NoError(t, s.Close())
					}
					assert.Zero(t, time.Since(began))
					synctest.Wait()
					assert.Empty(t, h.node.subscriptions, "it is forgotten")
					events, errs := e.take()
					require.NotEmpty(t, errs)
					assert.Equal(t, "unsubscribed", events[len(events)-1])
					for i, err := range errs {
						assert.Equal(t, i == len(errs)-1, errors.Is(err, ErrClosed), "%v", err)
					}
					require.NoError(t, s.Close())
					h.server.Mute(false)
					h.server.Continue()
					time.Sleep(time.Minute)
					assert.Empty(t, h.events(e), "no more events")
					want := 1
					if byNode || name == "between dials" {
						want = 0
					}
					assert.Equal(t, want, h.server.Connections())
				})
			})
		}
	}
}

func TestSubscriptionIsClosedByManyAtOnce(t *testing.T) {
	inBubble(t, func(h *harness) {
		s, e := h.subscribe()
		var closing sync.WaitGroup
		for i := range 10 {
			closing.Go(func() {
				if i%2 == 0 {
					assert.NoError(t, s.Close())
				} else {
					assert.NoError(t, h.node.Close())
				}
				assert.True(t, isClosed(s.stopped), "each waits")
			})
		}
		closing.Wait()
		assert.Equal(t, []string{"unsubscribed"}, h.events(e))
	})
}

// Close may come just after the server has confirmed, and find no connection to end.
func TestConnectionThatWasMadeForAClosedSubscriptionIsClosed(t *testing.T) {
	inBubble(t, func(h *harness) {
		s, e := h.subscribe()
		require.NoError(t, s.Close())
		assert.Equal(t, []string{"unsubscribed"}, h.events(e))
		client, server := fake.Pipe(0)
		assert.ErrorIs(t, s.serve(newConn(client, client)), ErrClosed)
		_, err := server.Read(make([]byte, 1))
		assert.ErrorIs(t, err, io.EOF)
		assert.Empty(t, h.events(e))
	})
}

func TestSubscriptionOfAClosedNodeIsClosed(t *testing.T) {
	inBubble(t, func(h *harness) {
		require.NoError(t, h.node.Close())
		dials := h.dials.Load()
		e := newRecorder()
		s := h.node.Subscribe(testChannel, e)
		assert.ErrorIs(t, h.failures(e)[0], ErrClosed)
		require.NoError(t, s.Close())
		time.Sleep(time.Minute)
		assert.Empty(t, h.events(e))
		assert.Equal(t, dials, h.dials.Load())
	})
}
