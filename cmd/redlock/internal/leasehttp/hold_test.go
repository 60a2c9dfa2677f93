package leasehttp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/virtual"
)

// reader is the client of a stream.
type reader struct {
	t    *testing.T
	body io.ReadCloser

	mu     sync.Mutex // guards what has come
	events []string
	ended  bool
}

func (s *server) hold(body string) *reader {
	s.t.Helper()
	response, err := s.send(s.t.Context(), http.MethodPost, Paths[1], body)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, response.StatusCode)
	require.Equal(s.t, "text/event-stream", response.Header.Get("Content-Type"))
	r := &reader{t: s.t, body: response.Body}
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := response.Body.Read(buffer)
			r.mu.Lock()
			if n > 0 { // each event is written at once
				r.events = append(r.events, string(buffer[:n]))
			}
			r.ended = err != nil
			r.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	virtual.Settle()
	return r
}

// took returns the events that have come since the last call.
func (r *reader) took() (events []string) {
	virtual.Settle()
	r.mu.Lock()
	defer r.mu.Unlock()
	events, r.events = r.events, nil
	return events
}

func (r *reader) hasEnded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

func TestAHeldLeaseIsRenewedAndReleasedWhenItsClientHangsUp(t *testing.T) {
	fleet(t, func(t *testing.T, c *virtual.Cluster, a, b *server) {
		client := a.hold(`{"name":"n","ttl":"9s","fence":true}`)
		events := client.took()
		require.Len(t, events, 1)
		assert.Regexp(t, `^event: granted\ndata: \{"name":"n","token":"\w+","fence":\d+,"valid_ms":9000\}\n\n$`, events[0])
		assert.Equal(t, 1, a.door.Streams())
		time.Sleep(time.Minute)
		events = client.took()
		require.Len(t, events, 20, "one in each third of the TTL")
		assert.Equal(t, "event: held\ndata: {\"valid_ms\":9000}\n\n", events[0])
		assert.Equal(t, 409, b.lease("POST", `{"name":"n"}`).Status)
		require.NoError(t, client.body.Close())
		c.Free("n")
		assert.Zero(t, a.door.Streams())
	})
}

// Nobody who asks for no time is given 30 s.
func TestATTLOfNothingIsNoLease(t *testing.T) {
	fleet(t, func(t *testing.T, c *virtual.Cluster, a, _ *server) {
		for _, path := range Paths {
			refused := a.do("POST", path, `{"name":"n","ttl":"0s"}`)
			require.Equal(t, http.StatusBadRequest, refused.Status, path)
			require.Contains(t, refused.Error, "a TTL of 0s is not between")
		}
		c.Free("n")
		held := a.grant("n")
		require.Equal(t, http.StatusBadRequest, a.lease("PUT", fmt.Sprintf(`{"name":"n","token":%q,"ttl":"0"}`, held.Token)).Status)
		require.Equal(t, http.StatusNoContent, a.lease("DELETE", fmt.Sprintf(`{"name":"n","token":%q,"ttl":"0"}`, held.Token)).Status)
	})
}

// A client may release by DELETE and hang up afterwards, and its token be another one's by then.
func TestAStreamThatEndsReleasesItsOwnGrantAlone(t *testing.T) {
	fleet(t, func(t *testing.T, c *virtual.Cluster, a, b *server) {
		client := a.hold(`{"name":"n","ttl":"9s","token":"shared"}`)
		require.Equal(t, http.StatusNoContent, b.lease("DELETE", of("n", "shared")).Status)
		require.Equal(t, http.StatusCreated, b.lease("POST", of("n", "shared")).Status)
		require.NoError(t, client.body.Close())
		time.Sleep(time.Second)
		require.Equal(t, http.StatusConflict, a.lease("POST", `{"name":"n"}`).Status)
		require.Equal(t, http.StatusNoContent, a.lease("DELETE", of("n", "shared")).Status)

		client = a.hold(`{"name":"n","ttl":"9s","token":"shared"}`)
		client.took()
		require.Equal(t, http.StatusNoContent, b.lease("DELETE", of("n", "shared")).Status)
		require.Equal(t, http.StatusCreated, b.lease("POST", of("n", "shared")).Status)
		time.Sleep(4 * time.Second)
		events := client.took()
		require.Len(t, events, 1)
		require.Contains(t, events[0], "event: lost")
	})
}

func TestAHolderIsToldWhenItsLeaseIsLost(t *testing.T) {
	fleet(t, func(t *testing.T, c *virtual.Cluster, a, _ *server) {
		client := a.hold(`{"name":"n","ttl":"9s"}`)
		client.took()
		c.Del("n")
		time.Sleep(3 * time.Second)
		events := client.took()
		require.Len(t, events, 1)
		assert.Regexp(t, `^event: lost\ndata: \{"error":"lost","why":".+"\}\n\n$`, events[0])
		assert.True(t, client.hasEnded())
	})
}

func TestAHolderIsToldInTimeWhenMastersAreAway(t *testing.T) {
	fleet(t, func(t *testing.T, c *virtual.Cluster, a, _ *server) {
		client := a.hold(`{"name":"n","ttl":"9s"}`)
		client.took()
		for _, i := range []int{0, 1} {
			c.Servers[i].Stop()
		}
		time.Sleep(9*time.Second - time.Millisecond)
		assert.Empty(t, client.took(), "it may be renewed yet")
		time.Sleep(time.Millisecond)
		events := client.took()
		require.Len(t, events, 1)
		assert.Contains(t, events[0], "event: lost\n")
		assert.Contains(t, events[0], "no quorum")
	})
}

// The client that does not answer any more may be at work.
func TestAHeldLeaseOfAClientThatFellSilentIsNotReleased(t *testing.T) {
	fleet(t, func(t *testing.T, c *virtual.Cluster, a, b *server) {
		client := a.hold(`{"name":"n","ttl":"9s"}`)
		close(a.silence)
		require.NoError(t, client.body.Close()) // the end of which the kernel says that it timed out
		virtual.Settle()
		assert.Zero(t, a.door.Streams())
		time.Sleep(9*time.Second - time.Millisecond)
		assert.Equal(t, 409, b.lease("POST", `{"name":"n"}`).Status, "until the end of what it was told last")
		time.Sleep(2 * time.Second)
		b.grant("n")
	})
}

func TestAClientThatReadsNothingLosesItsStreamAndNotItsLease(t *testing.T) {
	fleet(t, func(t *testing.T, _ *virtual.Cluster, a, b *server) {
		response, err := a.send(t.Context(), http.MethodPost, Paths[1], `{"name":"n","ttl":"50s"}`)
		require.NoError(t, err)
		defer response.Body.Close()
		time.Sleep(longestSilence + answerTimeout + time.Millisecond) // a pipe holds nothing
		assert.Zero(t, a.door.Streams())
		time.Sleep(30 * time.Second)
		assert.Equal(t, 409, b.lease("POST", `{"name":"n"}`).Status)
	})
}

func TestAServerThatEndsTellsItsHoldersAndLeavesThemTheirTime(t *testing.T) {
	fleet(t, func(t *testing.T, _ *virtual.Cluster, a, b *server) {
		client := a.hold(`{"name":"n","ttl":"9s","token":"mine"}`)
		client.took()
		time.Sleep(2 * time.Second)
		a.end(ErrEnding)
		events := client.took()
		require.Len(t, events, 1)
		assert.Equal(t, "event: lost\ndata: {\"error\":\"lost\",\"why\":\"this server is ending\",\"valid_ms\":6999}\n\n", events[0])
		assert.Equal(t, 200, b.lease("PUT", `{"name":"n","token":"mine"}`).Status, "it goes on at another server")
		waits := a.later(t.Context(), Paths[0], `{"name":"n","wait":"1m"}`)
		assert.Equal(t, 503, (<-waits).Status)
	})
}

func TestErrorsOfSocketsThatTellNothingOfThePeer(t *testing.T) {
	assert.True(t, isSilence(fmt.Errorf("read: %w", syscall.ETIMEDOUT)))
	for _, err := range []error{io.EOF, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed, errors.New("x")} {
		assert.False(t, isSilence(err), err)
	}
}
