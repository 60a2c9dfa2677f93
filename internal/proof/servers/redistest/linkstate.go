package redistest

import (
	"net"
	"time"
)

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

func (l *link) isMute() bool {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	return l.mute
}

// hasLeft reports whether the client has closed its side.
func (l *link) hasLeft() bool { return isClosed(l.left) }

func (l *link) hasShut() bool { return isClosed(l.closed) }

func isClosed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

// await returns true once a chunk that is due then may be delivered, and false if the link has
// ended.
func (l *link) await(lane Direction, due time.Time) bool {
	for {
		blocked, until, changed := l.proxy.obstacle(lane, due)
		if !blocked {
			return !l.hasShut()
		}
		var alarm <-chan time.Time // nil, which never fires, if there is no such time
		if !until.IsZero() {
			alarm = time.After(time.Until(until))
		}
		select {
		case <-l.closed:
			return false
		case <-changed:
		case <-alarm:
		}
	}
}

// sleep pauses a trickle, and returns early if the trickle or the link ends.
func (l *link) sleep(pause time.Duration) {
	for alarm := time.After(pause); ; {
		trickling, changed := l.proxy.trickling()
		if !trickling {
			return
		}
		select {
		case <-l.closed:
			return
		case <-alarm:
			return
		case <-changed:
		}
	}
}
