package fake

import (
	"context"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMutedNodeSwallowsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, WithBuffer(1000))
		c, quiet := dial(t, n), dial(t, n)
		n.Mute(true)
		require.NoError(t, c.Send("SET", "k", "v"))
		require.NoError(t, c.Flush())
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := n.Dial(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		n.Mute(false)
		_, err = c.Receive()
		require.ErrorIs(t, err, syscall.ECONNRESET, "a connection that lost bytes cannot go on")
		assert.Empty(t, n.Keys())
		assert.Equal(t, "+PONG", do(quiet, "PING"), "one that lost none can")
		assert.Equal(t, "+PONG", do(dial(t, n), "PING"))
	})
}

func TestWriterToAMutedNodeBlocksAtLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, WithBuffer(1000))
		conn, err := n.Dial(context.Background())
		require.NoError(t, err)
		defer conn.Close()
		n.Mute(true)
		require.NoError(t, conn.SetWriteDeadline(time.Now().Add(time.Second)))
		for err == nil {
			_, err = conn.Write([]byte("PING\r\n"))
		}
		assert.ErrorContains(t, err, "i/o timeout")
	})
}

func TestDialToAMutedNodeSucceedsWhenItHeals(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		n.Mute(true)
		time.AfterFunc(time.Second, func() { n.Mute(false) })
		assert.Equal(t, "+PONG", do(dial(t, n), "PING"))
	})
}

func TestMutedRepliesLeaveTheCommandExecuted(t *testing.T) {
	inBubble(t, func(t *testing.T, n *Node) {
		c := dial(t, n)
		n.MuteReplies(true)
		require.NoError(t, c.Send("SET", "k", "v"))
		require.NoError(t, c.Flush())
		synctest.Wait()
		assert.Equal(t, []string{"k"}, n.Keys())
		n.MuteReplies(false)
		_, err := c.Receive()
		require.ErrorIs(t, err, syscall.ECONNRESET)
	})
}
