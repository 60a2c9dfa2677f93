package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
)

// open listens where --listen says.
func (f *flags) open() (net.Listener, error) {
	if path, is := strings.CutPrefix(f.listen, "unix:"); is {
		return listenUnix(path)
	}
	if f.listen == "systemd" {
		return inherited()
	}
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return nil, cli.Usagef("--listen: give host:port, unix:PATH or systemd")
	}
	if f.loginFile == "" && !isLoopback(host) { // before anybody can connect
		return nil, errOpen
	}
	return net.Listen("tcp", f.listen)
}

// isLoopback reports whether a host that is listened on is this machine's own.
func isLoopback(host string) bool {
	address := net.ParseIP(host)
	return host == "localhost" || address != nil && address.IsLoopback()
}

// listenUnix listens on a socket that its owner and group can use. One that nobody listens on any
// more is replaced.
func listenUnix(path string) (net.Listener, error) {
	if path == "" {
		return nil, cli.Usagef("--listen: unix: needs a path")
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSocket != 0 {
		conn, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			return nil, errors.Join(fmt.Errorf("somebody listens on %s", path), conn.Close())
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o660); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
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
