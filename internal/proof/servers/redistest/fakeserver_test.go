package redistest

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFakeServerSaysWhatItsHandlerSays(t *testing.T) {
	t.Parallel()
	fake := FakeServer(t, func(conn net.Conn) {
		if _, err := io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n"); err != nil {
			t.Error(err)
		}
	})
	assert.Equal(t, "redis://"+fake.Addr(), fake.URL())
	conn, err := net.Dial("tcp", fake.Addr())
	require.NoError(t, err)
	defer closeQuietly(conn)
	text, err := io.ReadAll(conn)
	require.NoError(t, err, "the connection is closed in order when the handler returns")
	assert.Equal(t, "HTTP/1.1 400 Bad Request\r\n\r\n", string(text))
	soon(t, func() bool { return fake.Connections() == 0 }, "no handler is left")
}

func TestFakeServerEndsItsHandlersWithTheTest(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 2)
	t.Run("inner", func(t *testing.T) {
		fake := FakeServer(t, func(conn net.Conn) {
			_, err := io.Copy(io.Discard, conn)
			ended <- err
		})
		for range 2 {
			conn, err := net.Dial("tcp", fake.Addr())
			require.NoError(t, err)
			t.Cleanup(func() { closeQuietly(conn) })
		}
		soon(t, func() bool { return fake.Connections() == 2 }, "both handlers run")
	})
	assert.Len(t, ended, 2, "cleanup waits")
}
