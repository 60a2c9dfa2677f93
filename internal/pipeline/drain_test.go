package pipeline

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDrainWaitsForTheAnswersToKeptCalls(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		assert.Zero(t, h.node.Drain(context.Background()), "there are none")
		h.server.Delay(func() time.Duration { return 300 * time.Millisecond }, nil)
		release := h.script(true, deleteScript, "k", "v")
		began := time.Now()
		assert.Zero(t, h.node.Drain(context.Background()))
		assert.Equal(t, 300*time.Millisecond, time.Since(began))
		require.ErrorIs(t, release.wait().err, ErrTimeout, "its caller had waited for less")
	})
}

func TestDrainWaitsForANodeThatIsAway(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		require.NoError(t, h.command("SET", "k", "v").wait().err)
		h.server.Kill()
		h.script(true, deleteScript, "k", "v").wait()
		for range 3 { // several may wait
			go h.node.Drain(context.Background())
		}
		time.AfterFunc(5*time.Second, func() { h.server.Restart(true) })
		assert.Zero(t, h.node.Drain(context.Background()))
		assert.Empty(t, h.server.Keys())
	})
}

func TestDrainReturnsWhatIsLeftWhenItsContextEnds(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Kill()
		h.script(true, deleteScript, "k", "v").wait()
		h.script(true, deleteScript, "l", "v").wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		assert.Equal(t, 2, h.node.Drain(ctx))
	})
}

func TestCloseEndsDrainAndCountsWhatItForgets(t *testing.T) {
	inBubble(t, func(h *harness) {
		h.up()
		h.server.Kill()
		h.script(true, deleteScript, "k", "v").wait()
		over := make(chan int)
		go func() { over <- h.node.Drain(context.Background()) }()
		time.Sleep(time.Second)
		require.NoError(t, h.node.Close())
		assert.Zero(t, <-over, "nothing is left to wait for")
		assert.EqualValues(t, 1, h.node.Stats().Dropped)
	})
}
