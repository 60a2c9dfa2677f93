package redistest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Ports come from below the range that systems use for the local ports of outgoing connections
// (Linux: from 32768). While a server is down, any client on the machine could take a port of that
// range, even a client that keeps dialing that very server: TCP would connect it to itself.
const (
	lowestPort = 10_000
	portCount  = 20_000
)

const (
	// commonHost is the address of a process on systems that have no other loopback address.
	commonHost = "127.0.0.1"
	// claimPort is held open on a process's address to keep other processes from it.
	claimPort = 9_999
	// claimAttempts is enough: there are 16 million addresses.
	claimAttempts = 20
)

// Host returns the loopback address of this process's servers, such as 127.93.7.201. No other
// process has the same one, so none can take the port of a server that is down for a moment, and be
// taken for it. Where only 127.0.0.1 exists (macOS), all processes share that.
var Host = sync.OnceValue(func() string {
	for range claimAttempts {
		// Below 127.1 there are addresses that systems use themselves: Debian's 127.0.1.1,
		// 127.0.0.53 for DNS.
		host := net.IPv4(127, byte(1+rand.IntN(254)), byte(rand.IntN(256)), byte(1+rand.IntN(254))).String()
		if claim(host) {
			return host
		}
	}
	return commonHost
})

// claims are the listeners that keep this process's address. They stay open until it ends.
var claims []net.Listener

func claim(host string) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(claimPort)))
	if err != nil {
		return false
	}
	claims = append(claims, listener)
	return true
}

// Listen opens a free port of [Host].
func Listen() (net.Listener, error) { return net.Listen("tcp", address(0)) }

// FreeAddr returns a free address of [Host] that this process gives to nothing else.
func FreeAddr(tb testing.TB) string {
	tb.Helper()
	port, err := pickPort()
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	return address(port)
}

// OtherName returns the text with [Host] under another name of the same address.
func OtherName(text string) string {
	return strings.Replace(text, Host(), "[::ffff:"+Host()+"]", 1)
}

// lastPort counts up from anywhere. No port is picked again before all others, so a server that is
// down keeps its own.
var lastPort = func() *atomic.Uint64 {
	var last atomic.Uint64
	last.Store(uint64(rand.IntN(portCount)))
	return &last
}()

// pickPort returns a port that is free now. Where processes share an address, another one may still
// take it.
func pickPort() (int, error) {
	for range portCount {
		if port := lowestPort + int(lastPort.Add(1)%portCount); free(port) {
			return port, nil
		}
	}
	return 0, errors.New("no port is free")
}

func free(port int) bool {
	listener, err := net.Listen("tcp", address(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

func address(port int) string { return net.JoinHostPort(Host(), strconv.Itoa(port)) }
