package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports come from below the range that systems use for the local ports of outgoing connections
// (Linux: from 32768). While a server is down, any client on the machine could take a port of that
// range, even a client that keeps dialing that very server: TCP would connect it to itself.
const (
	lowestPort = 10_000
	portCount  = 20_000
	// pickAttempts is enough to find a free port unless nearly all ports are in use.
	pickAttempts = 200
)

const loopback = "127.0.0.1"

// ports holds the ports of this process's servers. A killed server keeps its port for a restart.
var ports portPicker

type portPicker struct {
	mu    sync.Mutex // guards the field below
	taken map[int]bool
}

// pick returns a port that is free now and not reserved. Another process may still take it first.
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
