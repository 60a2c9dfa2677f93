package redistest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// acceptPause keeps a failing Accept (no file descriptors left) from spinning.
const acceptPause = 10 * time.Millisecond

// Direction says which bytes a fault of a [Proxy] affects.
type Direction int

// The directions.
const (
	Requests Direction = iota // from the client to the server
	Replies                   // from the server to the client
	Both
)

// laneCount is the number of lanes. A lane is one direction: Requests or Replies.
const laneCount = 2

// lanes returns the lanes of a direction, and panics on an unknown direction.
func (d Direction) lanes() []Direction {
	switch d {
	case Requests, Replies:
		return []Direction{d}
	case Both:
		return []Direction{Requests, Replies}
	default:
		panic(fmt.Sprintf("redistest: no such direction: %d", int(d)))
	}
}

// Proxy is a TCP proxy that passes bytes on faithfully unless told to do harm. Faults apply to
// present and future connections, and last until they are switched off or [Proxy.Heal]. The methods
// may be called from any goroutine.
type Proxy struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup // accept, and serve for each connection; waited for by Close

	mu      sync.Mutex // guards the fields below and the marked ones of link; never held over I/O
	faults  faults
	links   map[*link]struct{}
	changed chan struct{} // closed and replaced at each change of the faults
	closed  bool
}

// faults is what a proxy does wrong now.
type faults struct {
	lanes     [laneCount]laneFaults
	refuse    bool
	trickle   time.Duration // 0: none
	cutAfter  int           // bytes of reply that pass before the cut; -1: no cut
	cutAnswer bool          // cut off the answer to the next request
}

type laneFaults struct {
	base, jitter time.Duration
	drop, hold   bool
}

// draw returns base ± jitter, never below zero.
func (f laneFaults) draw() time.Duration {
	if f.jitter <= 0 {
		return f.base
	}
	return max(0, f.base-f.jitter+time.Duration(rand.Int64N(2*int64(f.jitter)+1)))
}

func (f *faults) dropping() bool { return f.lanes[Requests].drop || f.lanes[Replies].drop }

func (f *faults) holding() bool { return f.lanes[Requests].hold || f.lanes[Replies].hold }

// NewProxy starts a proxy in front of the target, a host:port. It listens on a free port of [Host],
// and ends with the test.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	listener, err := Listen()
	if err != nil {
		tb.Fatalf("redistest: proxy: %v", err)
	}
	p := &Proxy{
		target:   target,
		listener: listener,
		faults:   faults{cutAfter: -1},
		links:    make(map[*link]struct{}),
		changed:  make(chan struct{}),
	}
	p.running.Go(p.accept)
	tb.Cleanup(p.Close)
	return p
}

// Addr returns the proxy's host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// URL returns the proxy as redis://host:port.
func (p *Proxy) URL() string { return "redis://" + p.Addr() }

// Connections returns how many clients are connected and have not closed their side.
func (p *Proxy) Connections() int {
	return len(p.matching(func(l *link) bool { return !isClosed(l.left) }))
}

// Delay makes every chunk arrive base ± jitter later, but never before the one ahead of it. It is
// latency: chunks travel at the same time. Delay(direction, 0, 0) ends it, and what is in transit
// arrives at once.
func (p *Proxy) Delay(direction Direction, base, jitter time.Duration) {
	p.changeLanes(direction, func(f *laneFaults) { f.base, f.jitter = base, jitter })
}

// Drop makes a black hole: bytes are read and discarded, and so is the end of a connection. A
// connection made meanwhile is accepted and stays mute, whichever direction drops, and the server
// never sees it: the TCP handshake would need both directions. A TCP stream cannot have a hole, so
// a connection that lost something delivers nothing more in that direction, and is reset when the
// last drop ends. One that lost nothing goes on.
func (p *Proxy) Drop(direction Direction, on bool) {
	p.changeLanes(direction, func(f *laneFaults) { f.drop = on })
}

// Hold keeps the bytes and delivers them when it ends, as TCP does when a partition heals. A
// connection made meanwhile reaches the server once no direction holds, if its client is still
// there.
func (p *Proxy) Hold(direction Direction, on bool) {
	p.changeLanes(direction, func(f *laneFaults) { f.hold = on })
}

// Refuse ends new connections at once, with RST.
func (p *Proxy) Refuse(on bool) { p.change(func(f *faults) { f.refuse = on }) }

// Trickle sends the clients one byte per interval; 0 ends it.
func (p *Proxy) Trickle(every time.Duration) { p.change(func(f *faults) { f.trickle = every }) }

// CutReplies lets that many more bytes of reply pass, on all connections together, and then closes
// the connection of the last one: its reply ends in the middle. With 0 the next byte of reply never
// passes. It happens once.
func (p *Proxy) CutReplies(after int) { p.change(func(f *faults) { f.cutAfter = max(0, after) }) }

// CutAfterRequest passes on the next request of any connection, and resets that connection when the
// server answers, before any byte of the answer passes: the request is executed, and the client
// cannot know. It happens once. The connection should have no other request outstanding, because
// the first byte of any reply counts as the answer.
func (p *Proxy) CutAfterRequest() { p.change(func(f *faults) { f.cutAnswer = true }) }

// Heal ends all faults. It delivers what was held or delayed, and resets connections that lost
// bytes.
func (p *Proxy) Heal() {
	p.change(func(f *faults) {
		*f = faults{cutAfter: -1}
		for l := range p.links {
			l.cut = false
		}
	})
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
	p.running.Wait()
}

// accept ends when the listener is closed.
func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(acceptPause)
		default:
			p.running.Go(func() { p.serve(client) })
		}
	}
}

func (p *Proxy) changeLanes(direction Direction, change func(*laneFaults)) {
	lanes := direction.lanes()
	p.change(func(f *faults) {
		for _, lane := range lanes {
			change(&f.lanes[lane])
		}
	})
}

// change changes the faults with mu held, announces the change, and resets the links with a hole if
// nothing drops any more.
func (p *Proxy) change(change func(*faults)) {
	p.mu.Lock()
	change(&p.faults)
	healed := !p.faults.dropping()
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	if !healed {
		return
	}
	for _, l := range p.matching((*link).torn) {
		l.shut(resetConn)
	}
}

// serve runs a new connection until it ends, unless the proxy refuses connections.
func (p *Proxy) serve(client net.Conn) {
	l := newLink(p, client)
	if !p.admit(l) {
		resetConn(client)
		return
	}
	l.serve()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func (p *Proxy) admit(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.faults.refuse {
		return false
	}
	l.mute = p.faults.dropping()
	p.links[l] = struct{}{}
	return true
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

// arrival returns when a chunk sent now arrives. It draws the jitter.
func (p *Proxy) arrival(lane Direction) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.faults.lanes[lane].draw())
}

// portion returns how many of n bytes of reply pass now, how long to pause after them, and whether
// the connection then ends.
func (p *Proxy) portion(n int) (count int, pause time.Duration, cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := &p.faults
	if f.trickle > 0 {
		n = 1
	}
	if f.cutAfter >= 0 {
		n = min(n, f.cutAfter)
		f.cutAfter -= n
		if cut = f.cutAfter == 0; cut {
			f.cutAfter = -1
		}
	}
	return n, f.trickle, cut
}
