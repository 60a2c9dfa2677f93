package leasehttp

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// noticeAfter is how long what was sent may stay without an acknowledgement before the connection
// is ended. Without it, the kernel tries for 15 minutes, and a stream would renew the lease of a
// machine that is gone for so long.
const noticeAfter = 10_000 // milliseconds

// notice has the connections of a listener end when their peers are silent.
func notice(l net.Listener) {
	socket, is := l.(syscall.Conn)
	if _, tcp := l.Addr().(*net.TCPAddr); !is || !tcp {
		return // a peer on this machine does not fall silent
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return // the listener is closed
	}
	// Connections inherit it. An older kernel does without.
	_ = raw.Control(func(fd uintptr) { //nolint:errcheck // see above
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, noticeAfter) //nolint:errcheck // see above
	})
}
