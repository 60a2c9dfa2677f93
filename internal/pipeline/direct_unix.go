//go:build unix

package pipeline

import (
	"errors"
	"net"
	"syscall"
)

// newTryWriter returns how to write to a socket without waiting; nil for anything else, as TLS.
func newTryWriter(stream net.Conn) tryWriter {
	switch own := stream.(type) {
	case tryWriter:
		return own
	case *net.TCPConn:
		return newSocket(own)
	case *net.UnixConn:
		return newSocket(own)
	default: // what has a socket within may do something of its own to the bytes, as a tunnel
		return nil
	}
}

func newSocket(own syscall.Conn) tryWriter {
	raw, err := own.SyscallConn()
	if err != nil {
		return nil
	}
	s := &socket{raw: raw}
	s.once = s.write
	return s
}

// socket writes to a socket of package net, which does not block.
type socket struct {
	raw  syscall.RawConn
	once func(fd uintptr) (done bool) // write; kept, because a method value is an allocation

	// Of the TryWrite under way.
	bytes   []byte
	written int
	err     error
}

// TryWrite implements tryWriter. It must not be called by two goroutines at once.
func (s *socket) TryWrite(p []byte) (n int, err error) {
	s.bytes, s.written, s.err = p, 0, nil
	err = s.raw.Write(s.once)
	s.bytes = nil
	if err == nil {
		err = s.err
	}
	return s.written, err
}

func (s *socket) write(fd uintptr) (done bool) {
	n, err := syscall.Write(int(fd), s.bytes)
	s.written = max(n, 0)
	if !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR) {
		s.err = err
	}
	return true // false would wait until the socket takes more
}
