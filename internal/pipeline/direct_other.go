//go:build !unix

package pipeline

import "net"

// newTryWriter returns nil: only the writer writes to sockets that may wait.
func newTryWriter(stream net.Conn) tryWriter {
	own, _ := stream.(tryWriter)
	return own
}
