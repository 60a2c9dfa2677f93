package contention

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

func TestATermOutlastsTheContextThatItWasWaitedForWith(t *testing.T) {
	t.Parallel()
	setup := Setup{
		Addresses: addressesOf(redistest.Start(t, 1)), Name: "led", TTL: 10 * time.Second, Patience: 10 * time.Second,
		Dial: (&net.Dialer{}).DialContext,
	}
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
