package redistest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// acceptPause keeps a failing Accept (no file descriptors left) from spinning.
const acceptPause = 10 * time.Millisecond

// Proxy is a TCP proxy that passes bytes on faithfully unless told to do harm. Faults apply to
// present and future connections, and last until they are switched off or [Proxy.Heal]. The methods
// may be called from any goroutine.
type Proxy struct {
	target     string
	listener   net.Listener
	goroutines sync.WaitGroup // accept and every link; waited for by Close

	mu      sync.Mutex // guards the fields below and the marked ones of link; never held over I/O
	faults  faults
	random  *rand.Rand
	links   map[*link]struct{}
	changed chan struct{} // closed and replaced at each change of the faults
	closed  bool
}

// NewProxy starts a proxy in front of the target: a host:port, or the path of a unix socket. It
// listens on a free port of [Host], and ends with the test.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	p, err := LaunchProxy(target)
	if err != nil {
		tb.Fatalf("redistest: proxy to %s: %v", target, err)
	}
	tb.Cleanup(p.Close)
	return p
}

// LaunchProxy is [NewProxy] for programs that are not tests. The caller must close the proxy.
func LaunchProxy(target string) (*Proxy, error) {
	listener, err := Listen()
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		target:   target,
		listener: listener,
		faults:   noFaults(),
		links:    make(map[*link]struct{}),
		changed:  make(chan struct{}),
	}
	p.Seed(0)
	p.goroutines.Go(p.accept)
	return p, nil
}

// Addr returns the proxy's host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// URL returns the proxy as redis://host:port.
func (p *Proxy) URL() string { return "redis://" + p.Addr() }

// Connections returns how many clients are connected and have not closed their side.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	count := 0
	for link := range p.links {
		if !link.hasLeft() {
			count++
		}
	}
	return count
}

// Reset ends all connections with RST, on both sides.
func (p *Proxy) Reset() {
	for _, link := range p.matching(func(*link) bool { return true }) {
		link.shut(resetConn)
	}
}

// Close stops listening, resets all connections and waits until all goroutines of the proxy have
// ended.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	closeQuietly(p.listener)
	p.Reset()
	p.goroutines.Wait()
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(acceptPause)
		case !p.admit(conn):
			resetConn(conn)
		}
	}
}

// admit makes a link of a new connection, unless the proxy refuses connections.
func (p *Proxy) admit(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.faults.refuse {
		return false
	}
	l := newLink(p, conn)
	l.mute = p.faults.dropping()
	p.links[l] = struct{}{}
	p.goroutines.Go(l.serve)
	return true
}

func (p *Proxy) forget(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

// matching returns the links for which the condition, called with mu held, is true.
func (p *Proxy) matching(condition func(*link) bool) []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []*link
	for l := range p.links {
		if condition(l) {
			found = append(found, l)
		}
	}
	return found
}

func (p *Proxy) dialTarget() (net.Conn, error) {
	network := "tcp"
	if strings.HasPrefix(p.target, "/") {
		network = "unix"
	}
	return net.DialTimeout(network, p.target, replyTimeout)
}
