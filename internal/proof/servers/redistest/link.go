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
	l.proxy.forget(l)
}

// enter connects to the server as soon as the faults allow it. It returns nil if the link ends
// before.
func (l *link) enter() net.Conn {
	if l.isMute() {
		select {
		case <-l.left:
		case <-l.closed:
		}
		return nil
	}
	for {
		blocked, changed := l.proxy.entrance()
		if !blocked {
			break
		}
		select {
		case <-l.closed:
			return nil
		case <-l.left:
			return nil // it gave up while its SYN was held: nothing it wrote was ever sent
		case <-changed:
		}
	}
	server, err := l.proxy.dialTarget()
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
			if c.end != nil && l.await(lane, c.due) && !l.loses(lane) {
				l.finish(to, c.end)
				return
			}
		}
	}
}

// pass delivers the bytes of a chunk that the faults let through.
func (l *link) pass(lane Direction, to net.Conn, c chunk) {
	for data := c.data; len(data) > 0 && l.await(lane, c.due) && !l.loses(lane); {
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
			l.sleep(pause)
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
