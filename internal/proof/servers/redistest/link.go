package redistest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// chunkSize is how much one read takes: more than any reply in our tests.
	chunkSize = 32 << 10
	// maxUnderWay bounds how many chunks of a lane are delayed or held. Beyond it the sender feels
	// back-pressure, as from a full TCP window.
	maxUnderWay = 1024
)

// link is one client's connection through a proxy. Each direction has a lane: one goroutine reads
// chunks, and another delivers them in order when they are due.
type link struct {
	proxy  *Proxy
	client net.Conn
	lanes  [laneCount]chan chunk // written by read, read by deliver
	left   chan struct{}         // closed once the client's side has been read to its end
	closed chan struct{}         // closed by shut

	// Guarded by proxy.mu.
	server net.Conn        // nil until dialed
	shutBy bool            // closed is closed, or about to be
	mute   bool            // made during a drop: the server never sees it
	lost   [laneCount]bool // this lane has a hole and delivers nothing more
	cut    bool            // the next byte of reply resets the link
}

// chunk is what one read returned.
type chunk struct {
	data []byte
	end  error     // io.EOF: the sender closed its side; any other: it broke the connection
	due  time.Time // deliver neither before then nor before the chunk ahead
}

func newLink(proxy *Proxy, client net.Conn) *link {
	l := &link{proxy: proxy, client: client, left: make(chan struct{}), closed: make(chan struct{})}
	for lane := range l.lanes {
		l.lanes[lane] = make(chan chunk, maxUnderWay)
	}
	return l
}

// serve runs the link and returns once all its goroutines have ended.
func (l *link) serve() {
	var lanes, readers sync.WaitGroup
	readers.Go(func() { l.read(Requests, l.client); close(l.left) })
	if server := l.enter(); server != nil {
		readers.Go(func() { l.read(Replies, server) })
		lanes.Go(func() { l.deliver(Requests, server) })
		lanes.Go(func() { l.deliver(Replies, l.client) })
		lanes.Wait()
		l.shut(closeConn)
	} else {
		l.shut(resetConn)
	}
	readers.Wait()
}

// enter connects to the server as soon as the faults allow it. It returns nil if the link ends
// before, or if the client gives up: while its SYN is held, nothing that it writes is sent.
func (l *link) enter() net.Conn {
	if !l.await(l.left, func(f *faults) (bool, time.Time) { return l.mute || f.holding(), time.Time{} }) {
		return nil
	}
	server, err := net.DialTimeout("tcp", l.proxy.target, replyTimeout)
	if err != nil || !l.attach(server) {
		return nil
	}
	return server
}

// read reads what the sender of a lane sends, until the sender or the link ends.
func (l *link) read(lane Direction, from net.Conn) {
	buffer := make([]byte, chunkSize)
	for {
		n, err := from.Read(buffer)
		if lane == Replies && n > 0 && l.isCut() {
			l.shut(resetConn)
			return
		}
		c := chunk{data: bytes.Clone(buffer[:n]), end: err, due: l.proxy.arrival(lane)}
		if !l.loses(lane) {
			select {
			case l.lanes[lane] <- c:
			case <-l.closed:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// deliver passes on what read has read, until the lane or the link has ended.
func (l *link) deliver(lane Direction, to net.Conn) {
	for {
		select {
		case <-l.closed:
			return
		case c := <-l.lanes[lane]:
			l.pass(lane, to, c)
			if c.end != nil && l.arrive(lane, c.due) && !l.loses(lane) {
				l.finish(to, c.end)
				return
			}
		}
	}
}

// pass delivers the bytes of a chunk that the faults let through.
func (l *link) pass(lane Direction, to net.Conn, c chunk) {
	for data := c.data; len(data) > 0 && l.arrive(lane, c.due) && !l.loses(lane); {
		count, pause, cut := len(data), time.Duration(0), false
		if lane == Replies {
			count, pause, cut = l.proxy.portion(len(data))
		} else {
			l.markCut() // before the server can answer
		}
		_, err := to.Write(data[:count])
		data = data[count:]
		switch {
		case cut:
			l.shut(closeConn)
		case err != nil && lane == Requests:
			l.shut(resetConn)
		case err != nil:
			// The client is gone. Its FIN or RST travels with its requests, which may still be
			// held.
			return
		case pause > 0:
			next := time.Now().Add(pause)
			l.await(nil, func(f *faults) (bool, time.Time) { return f.trickle > 0 && time.Now().Before(next), next })
		}
	}
}

// arrive returns true once a chunk that is due then may be delivered, and false if the link has
// ended.
func (l *link) arrive(lane Direction, due time.Time) bool {
	return l.await(nil, func(f *faults) (bool, time.Time) {
		switch here := f.lanes[lane]; {
		case here.hold:
			return true, time.Time{}
		case here.base == 0 && here.jitter == 0:
			return false, due
		default:
			return time.Now().Before(due), due
		}
	})
}

// await returns true once no fault is in the way any more, and false if the link ends, or the
// client gives up. The fault tells, with proxy.mu held, until when it lasts at the latest (the zero
// time: until a change).
func (l *link) await(givenUp <-chan struct{}, fault func(*faults) (inTheWay bool, until time.Time)) bool {
	for {
		l.proxy.mu.Lock()
		inTheWay, until := fault(&l.proxy.faults)
		changed := l.proxy.changed
		l.proxy.mu.Unlock()
		if !inTheWay {
			return !isClosed(l.closed)
		}
		var alarm <-chan time.Time // nil, which never fires, if there is no such time
		if !until.IsZero() {
			alarm = time.After(time.Until(until))
		}
		select {
		case <-l.closed:
			return false
		case <-givenUp:
			return false
		case <-changed:
		case <-alarm:
		}
	}
}

// finish passes on how a sender ended.
func (l *link) finish(to net.Conn, end error) {
	half, ok := to.(interface{ CloseWrite() error })
	if !errors.Is(end, io.EOF) || !ok || half.CloseWrite() != nil {
		l.shut(resetConn)
	}
}

// shut ends the link in the given way. Only the first call does.
func (l *link) shut(end func(net.Conn)) {
	l.proxy.mu.Lock()
	first, server := !l.shutBy, l.server
	l.shutBy = true
	l.proxy.mu.Unlock()
	if !first {
		return
	}
	close(l.closed)
	end(l.client)
	if server != nil {
		end(server)
	}
}

func closeConn(conn net.Conn) { closeQuietly(conn) }

// attach sets the link's server, which shut closes from then on. If shut was called before, it
// resets the server and returns false.
func (l *link) attach(server net.Conn) bool {
	l.proxy.mu.Lock()
	late := l.shutBy
	if !late {
		l.server = server
	}
	l.proxy.mu.Unlock()
	if late {
		resetConn(server)
	}
	return !late
}

// loses reports whether a chunk of the lane is lost now, and records the loss.
func (l *link) loses(lane Direction) bool {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	if l.mute || l.proxy.faults.lanes[lane].drop {
		l.lost[lane] = true
	}
	return l.lost[lane]
}

// torn reports whether bytes are missing, or the server never saw the connection. Needs proxy.mu.
func (l *link) torn() bool { return l.mute || l.lost[Requests] || l.lost[Replies] }

// markCut makes this the link whose answer is cut off, if [Proxy.CutAfterRequest] is waiting for
// one.
func (l *link) markCut() {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	if l.proxy.faults.cutAnswer {
		l.proxy.faults.cutAnswer = false
		l.cut = true
	}
}

func (l *link) isCut() bool {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	return l.cut
}

func isClosed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}
