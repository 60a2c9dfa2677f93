package fakeredis

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestResetLosesWhatIsOnTheWay(t *testing.T) {
	client, server := Pipe()
	_, err := client.Write([]byte("lost"))
	require.NoError(t, err)
	client.Reset()
	_, err = server.Read(make([]byte, 9))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	_, err = server.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	_, err = client.Read(make([]byte, 9))
	assert.ErrorIs(t, err, syscall.ECONNRESET)
}

func TestWriterToAPeerThatDoesNotReadWaits(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(client, server *Conn)
		want error
	}{
		"until there is room": {func(_, server *Conn) {
			_, err := io.ReadFull(server, make([]byte, DefaultBuffer))
			assert.NoError(t, err)
		}, nil},
		"until its own close": {func(client, _ *Conn) { client.Close() }, net.ErrClosed},
		"until a reset":       {func(_, server *Conn) { server.Reset() }, syscall.ECONNRESET},
		"until the peer ends": {func(_, server *Conn) { server.Close() }, nil}, // accepted, and lost
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := Pipe()
				var err error
				ended := false
				go func() {
					_, err = client.Write(make([]byte, DefaultBuffer+1))
					ended = true
				}()
				synctest.Wait()
				require.False(t, ended)
				c.end(client, server)
				synctest.Wait()
				require.True(t, ended)
				require.ErrorIs(t, err, c.want)
				client.Close()
			})
		})
	}
}

func TestDeadlineEndsReadsAndWritesAtItsMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := Pipe()
		defer client.Close()
		for name, operate := range map[string]func() error{
			"read": func() error { _, err := client.Read(make([]byte, 1)); return err },
			"write": func() error {
				_, err := client.Write(make([]byte, DefaultBuffer+1))
				return err
			},
		} {
			start := time.Now()
			require.NoError(t, client.SetDeadline(start.Add(time.Second)))
			err := operate()
			require.ErrorIs(t, err, os.ErrDeadlineExceeded, name)
			var timeout net.Error
			ok := errors.As(err, &timeout)
			require.True(t, ok && timeout.Timeout(), name)
			require.Equal(t, time.Second, time.Since(start), name)
			require.ErrorIs(t, operate(), os.ErrDeadlineExceeded, "it stays passed")
			require.NoError(t, client.SetDeadline(time.Time{}))
		}
	})
}
