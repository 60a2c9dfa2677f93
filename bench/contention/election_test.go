package contention

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

func TestATermOutlastsTheContextThatItWasWaitedForWith(t *testing.T) {
	if !Supported {
		t.Skip("processes share no clock here")
	}
	setup := Setup{
		Addresses: AddressesOf(redistest.Start(t, 1)), TTL: 10 * time.Second, Patience: 10 * time.Second,
		Dial: new(Traffic).Dial,
	}
	first, err := OpenElection(t.Context(), setup)
	require.NoError(t, err)
	defer first.Close()
	second, err := OpenElection(t.Context(), setup)
	require.NoError(t, err)
	defer second.Close()

	ctx, cancel := context.WithCancel(t.Context())
	term, err := first.Lock(ctx, "named")
	require.NoError(t, err)
	cancel()
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = second.Lock(short, "named")
	require.ErrorIs(t, err, context.DeadlineExceeded, "the first one leads")
	require.NoError(t, term.Unlock(t.Context()))
	term, err = second.Lock(t.Context(), "named")
	require.NoError(t, err)
	require.NoError(t, term.Unlock(t.Context()))
}
