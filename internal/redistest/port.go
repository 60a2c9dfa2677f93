package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports come from below the range from which systems take the local ports of outgoing connections (Linux: 32768 up).
// A port of that range could be taken by any client on the machine while its server is down, even by a client that
// keeps dialing that very server: TCP would connect it to itself.
const (
	lowestPort = 10_000
	portCount  = 20_000
	// pickAttempts is enough to find a free port unless nearly all are in use.
	pickAttempts = 200
)

const loopback = "127.0.0.1"

// ports are those of the servers of this process. A killed server keeps its own for a restart.
var ports portPicker

type portPicker struct {
	mu    sync.Mutex // guards the field below
	taken map[int]bool
}

// pick returns a port that is free now, and not handed out before. Another process may still take it first.
func (p *portPicker) pick() (int, error) {
	for range pickAttempts {
		port := lowestPort + rand.IntN(portCount)
		if p.reserve(port) {
			if free(port) {
				return port, nil
			}
			p.release(port)
		}
	}
	return 0, fmt.Errorf("no free port found in %d attempts", pickAttempts)
}

func (p *portPicker) reserve(port int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken[port] {
		return false
	}
	if p.taken == nil {
		p.taken = make(map[int]bool)
	}
	p.taken[port] = true
	return true
}

func (p *portPicker) release(port int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.taken, port)
}

func free(port int) bool {
	listener, err := net.Listen("tcp", address(port))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
