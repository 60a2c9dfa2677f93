package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
)

// open listens where --listen says.
func (f *flags) open() (net.Listener, error) {
	if f.listen == "systemd" {
		return inherited()
	}
	return f.openAt("--listen", f.listen, "host:port, unix:PATH or systemd")
}

// openAt listens where a flag says, which takes what is told.
func (f *flags) openAt(flag, where, takes string) (net.Listener, error) {
	if path, is := strings.CutPrefix(where, "unix:"); is {
		return listenUnix(flag, path)
	}
	host, _, err := net.SplitHostPort(where)
	if err != nil {
		return nil, cli.Usagef("%s: give %s", flag, takes)
	}
	if f.loginFile == "" && !isLoopback(host) { // before anybody can connect
		return nil, errOpen
	}
	return net.Listen("tcp", where)
}

// isLoopback reports whether a host that is listened on is this machine's own.
func isLoopback(host string) bool {
	address := net.ParseIP(host)
	return host == "localhost" || address != nil && address.IsLoopback()
}

// listenUnix listens on a socket that its owner and group can use. One that nobody listens on any
// more is replaced.
func listenUnix(flag, path string) (net.Listener, error) {
	if path == "" {
		return nil, cli.Usagef("%s: unix: needs a path", flag)
	}
	if err := removeDead(path); err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	l := &ownSocket{UnixListener: listener.(*net.UnixListener), path: path}
	l.SetUnlinkOnClose(false)
	if err = os.Chmod(path, 0o660); err == nil {
		l.made, err = os.Lstat(path)
	}
	if err != nil {
		return nil, errors.Join(err, listener.Close(), os.Remove(path))
	}
	return l, nil
}

// removeDead removes a socket on which nobody listens: the kernel refuses the connection. Any other
// error leaves it open whether somebody does: the right to connect is missing, the queue of
// connections is full, or it is a socket of another kind.
func removeDead(path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&fs.ModeSocket == 0 {
		return nil // to listen there says what is wrong
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		return errors.Join(fmt.Errorf("somebody listens on %s", path), conn.Close())
	case !errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("somebody may listen on %s: %w", path, err)
	default:
		return os.Remove(path)
	}
}

// ownSocket removes its socket at the end, and no other one that has taken its place.
type ownSocket struct {
	*net.UnixListener
	path string
	made fs.FileInfo
}

// Close ends the listening.
func (s *ownSocket) Close() error {
	if there, err := os.Lstat(s.path); err == nil && os.SameFile(there, s.made) {
		_ = os.Remove(s.path) //nolint:errcheck // the next one replaces it
	}
	return s.UnixListener.Close()
}

// firstInherited is the first descriptor that systemd passes (sd_listen_fds(3)).
const firstInherited = 3

// inherited returns the socket of the systemd unit.
func inherited() (net.Listener, error) {
	if os.Getenv("LISTEN_PID") != strconv.Itoa(os.Getpid()) || os.Getenv("LISTEN_FDS") != "1" {
		return nil, cli.Usagef("--listen systemd: there is no socket from systemd, or more than one")
	}
	file := os.NewFile(firstInherited, "systemd")
	listener, err := net.FileListener(file)
	return listener, errors.Join(err, file.Close())
}

// address is where the pages are, for people.
func (f *flags) address(at net.Addr) string {
	path := strings.TrimSuffix(f.prefix, "/") + "/"
	if at.Network() == "unix" {
		return "unix:" + at.String() + ", " + path
	}
	return "http://" + at.String() + path
}
