package pipeline

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// gate lets a dialer wait.
type gate struct {
	mu   sync.Mutex
	open chan struct{}
}

func (g *gate) wait(ctx context.Context) error {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}

// queued runs a test whose calls are queued until it connects the node, so that they are sent at
// once. With hold it disconnects the node again.
func queued(t *testing.T, test func(h *harness, hold, connect func())) {
	t.Helper()
	inBubble(t, func(h *harness) {
		g := &gate{}
		g.shut()
		require.NoError(t, h.node.Close())
		h.node = h.newNode("fake:6379", WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			if err := g.wait(ctx); err != nil {
				return nil, err
			}
			return h.dial(ctx, network, address)
		}))
		hold := func() {
			g.shut()
			h.server.CutAfterWrite(1)
			require.Error(t, h.command("ECHO", "lost").wait().err)
		}
		test(h, hold, func() { close(g.open) })
	})
}
