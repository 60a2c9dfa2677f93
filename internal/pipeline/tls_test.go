package pipeline

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Closing TLS writes a farewell, which blocks for seconds if the peer takes nothing. Nobody else
// may wait for it.
func TestGivingUpATLSConnectionBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		certificate := selfSigned(t)
		var peer net.Conn
		dial := func(context.Context, string, string) (net.Conn, error) {
			if peer != nil {
				return nil, io.ErrUnexpectedEOF
			}
			client, server := net.Pipe() // a write blocks until the peer reads
			peer = server
			go func() {
				s := tls.Server(server, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13})
				buf := make([]byte, 4096)
				n, err := s.Read(buf) // the handshake's commands, in one write
				assert.NoError(t, err)
				for command := range strings.SplitSeq(string(buf[:n]), "\r\n*") {
					if strings.HasPrefix(command, "append") {
						continue // it is the pattern of CONFIG GET
					}
					reply := "-ERR no\r\n"
					if strings.Contains(command, "EVAL") {
						reply = ":1\r\n"
					}
					_, err = io.WriteString(s, reply)
					assert.NoError(t, err)
				}
				_, err = s.Read(buf) // one more command, and then nothing
				assert.NoError(t, err)
			}()
			return client, nil
		}
		node, err := NewNode("rediss://fake:6379", WithDialer(dial), WithStallTimeout(100*time.Millisecond),
			WithTLSConfig(&tls.Config{InsecureSkipVerify: true})) //nolint:gosec // the certificate is this test's own
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, Up, node.Stats().State, "%v", node.Stats().Err)
		w := &waiter{h: &harness{t: t}, began: time.Now(), done: make(chan struct{})}
		node.Do(Call{Request: &Request{Words: Command("PING"), Sink: w, Deadline: node.Clock().Now().Add(100 * time.Millisecond)}})
		require.Error(t, w.wait().err)
		for range 50 {
			time.Sleep(10 * time.Millisecond)
			began := time.Now()
			node.Stats()
			assert.Zero(t, time.Since(began))
		}
		require.NoError(t, peer.Close())
		require.NoError(t, node.Close())
	})
}

// A dialer that does TLS itself makes rediss:// TLS twice: Redis takes it for a broken command, or
// waits for the end of its line.
func TestTLSThatOnlyOneSideBeginsIsNamed(t *testing.T) {
	for answer, want := range map[string]string{
		"-ERR Protocol error\r\n": "TLS: something else answered: rediss:// is for servers with TLS; with a dialer that begins TLS itself",
		"":                        "connected, but no TLS within 1s: rediss:// is for servers with TLS; with a dialer that begins TLS itself",
	} {
		synctest.Test(t, func(t *testing.T) {
			dial := func(context.Context, string, string) (net.Conn, error) {
				client, server := net.Pipe()
				go func() {
					buf := make([]byte, 4096)
					_, _ = server.Read(buf)               //nolint:errcheck // TLS begins
					_, _ = io.WriteString(server, answer) //nolint:errcheck // the client may give up
					_, _ = io.Copy(io.Discard, server)    //nolint:errcheck // until it has
				}()
				return client, nil
			}
			node, err := NewNode("rediss://fake:6379", WithDialer(dial), WithDialTimeout(time.Second))
			require.NoError(t, err)
			time.Sleep(1500 * time.Millisecond)
			synctest.Wait()
			require.ErrorContains(t, node.Stats().Err, want)
			require.NoError(t, node.Close())
		})
	}
}

// A server with TLS ends a connection that begins without, and says nothing. One that has said
// something, or did so before, has no TLS.
func TestAServerThatAnswersNothingMayWantTLS(t *testing.T) {
	const hint = "it has answered nothing: redis:// is for servers without TLS"
	for answer, hinted := range map[string]bool{"": true, "-ERR max number of clients reached\r\n": false} {
		synctest.Test(t, func(t *testing.T) {
			dial := func(context.Context, string, string) (net.Conn, error) {
				client, server := net.Pipe()
				go func() {
					buf := make([]byte, 4096)
					_, _ = server.Read(buf)               //nolint:errcheck // the handshake's commands
					_, _ = io.WriteString(server, answer) //nolint:errcheck // the client may give up
					_ = server.Close()
				}()
				return client, nil
			}
			node, err := NewNode("redis://fake:6379", WithDialer(dial))
			require.NoError(t, err)
			synctest.Wait()
			err = node.Stats().Err
			assert.ErrorContains(t, err, "connection closed by the server")
			assert.Equal(t, hinted, strings.Contains(err.Error(), hint), err)
			require.NoError(t, node.Close())
		})
	}
}

// A dialer that does TLS, at a server that does not, waits for as long as it may.
func TestADialThatTakesTooLongSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		node, err := NewNode("redis://fake:6379", WithDialer(dial), WithDialTimeout(time.Second))
		require.NoError(t, err)
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		require.ErrorContains(t, node.Stats().Err, "not connected within 1s: context deadline exceeded (a dialer that begins TLS waits")
		require.NotErrorIs(t, node.Stats().Err, context.DeadlineExceeded)
		require.NoError(t, node.Close())
	})
}
