package memory

import (
	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/redquorum/redquorum/internal/proof/spec"
)

const (
	nodes      = 3
	quorum     = 2
	maxClients = 3
	maxCopies  = 2
)

// memory is the data of a node: its marker, and the key of the one lock.
//
// An incarnation is a number, and any two that are in a world at once differ. A run id is 0 if its
// process is gone, otherwise that of the process that now runs at a node: runOf(n). The texts of
// two markers are equal if state, incarnation and run id are.
type memory struct {
	state       spec.State
	incarnation uint8 `search:"fresh"` // 0 if there is no marker
	run         uint8 `search:"node"`
	durable     bool  // the marker says so
	replid      bool  // the replid in the marker is the current one of the process of run
	told        bool  // a client that knew the node as active has read this new marker, or wrote it
	taken       bool  // a node took it over, and no client has written lost since
	wait        uint8 `search:"bits of clients"` // the attempts that were under way when T was set
	key         uint8 `search:"client"`          // 0, or keyOf the client that has it
}

func runOf(n int) uint8 { return uint8(n) + 1 }
func keyOf(c int) uint8 { return uint8(c) + 1 }
func bitOf(c int) uint8 { return 1 << c }

type node struct {
	memory
	durable  bool // all that it has answered is in its log
	partial  bool // it loads a part of its log
	unseen   bool // it loaded a part, and no client has connected since
	promoted bool // it has a second replid
	whole    bool // it is active, and has lost nothing since it was made active
	hurt     bool // a fault has hit it
}

// A copy is data of a node that has not changed since the copy was made: a snapshot on its disk, or
// a replica that is cut off.
type copied struct {
	owner uint8 `search:"node"` // 0, or n+1
	memory
}

// persists reports whether a restart brings back all that the node has answered, as far as its
// settings say.
func (m *node) persists() bool { return m.durable && !m.partial }

// stage is how far a client is with a node.
type stage uint8

const (
	away     stage = iota // it has no connection, or waits
	intends               // it has judged, and is about to write
	seesNew               // it has seen the marker new
	admitted              // it counts votes under the incarnation
)

// A vote is what a client has of a node in its current attempt.
type vote uint8

const (
	noVote  vote = iota
	granted      // the SET has granted, and the proof is still to come
	proven       // the proof came first, which is a mistake
	counted
)

// A link is the state between one client and one node. When a connection ends, all of it is lost
// except known, and a vote that counts.
type link struct {
	stage       stage
	verdict     spec.Verdict // of a client that intends
	seen        spec.State   // that it has seen
	own         bool         // the run id that it has seen is the server's
	incarnation uint8        `search:"fresh"` // that it has seen
	known       bool         // it has known this node as active
	again       bool         // it has seen the marker new for the second time
	vote        vote
}

// A phase is how far a client's attempt is.
type phase uint8

const (
	idle   phase = iota
	asking       // at least one SET was granted, or is about to be
	holding
)

type client struct {
	phase      phase
	activating bool        // it has seen twice that the cluster is new
	links      [nodes]link `search:"nodes"`
}

type world struct {
	nodes    [nodes]node        `search:"nodes"`
	copies   [maxCopies]copied  `search:"others"`
	clients  [maxClients]client `search:"clients"`
	faults   uint8              // that may still come
	restarts uint8              // of clients, that may still come
}

// alive is a bit for each attempt that is under way, lock or not.
func (w *world) alive() (bits uint8) {
	for c := range w.clients {
		if w.clients[c].phase != idle {
			bits |= bitOf(c)
		}
	}
	return bits
}

// memories visits all data there is.
func (w *world) memories(visit func(m *memory)) {
	for n := range w.nodes {
		visit(&w.nodes[n].memory)
	}
	for i := range w.copies {
		if w.copies[i].owner != 0 {
			visit(&w.copies[i].memory)
		}
	}
}

// has reports whether any data is of the incarnation.
func (w *world) has(incarnation uint8) (found bool) {
	w.memories(func(m *memory) { found = found || m.incarnation == incarnation })
	return found
}

// fresh returns an incarnation that nobody knows.
func (w *world) fresh() uint8 {
	var used uint32
	w.memories(func(m *memory) { used |= 1 << m.incarnation })
	for c := range w.clients {
		for n := range w.clients[c].links {
			used |= 1 << w.clients[c].links[n].incarnation
		}
	}
	for i := uint8(1); i < 16; i++ {
		if used>>i&1 == 0 {
			return i
		}
	}
	panic("memory: more incarnations than there are names for")
}

// detach ends the connection of a client to a node.
func (w *world) detach(c, n int) {
	one := &w.clients[c]
	l := &one.links[n]
	left := link{known: l.known}
	if l.vote == counted {
		left.vote = counted
	}
	*l = left
	w.reconsider(c)
}

// reconsider ends the second look of a client when what it looked at has changed. An activating
// client goes on with the rest.
func (w *world) reconsider(c int) {
	one := &w.clients[c]
	still := 0
	for n := range one.links {
		if one.links[n].again {
			still++
		}
	}
	if one.activating {
		one.activating = still > 0
		return
	}
	for n := range one.links {
		one.links[n].again = false
	}
}

// end ends the attempt of a client, or its lock. Keys that are left behind would only refuse votes,
// so they disappear at once.
func (w *world) end(c int) {
	one := &w.clients[c]
	one.phase = idle
	for n := range one.links {
		one.links[n].vote = noVote
	}
	w.memories(func(m *memory) {
		m.wait &^= bitOf(c)
		if m.key == keyOf(c) {
			m.key = 0
		}
	})
}

// Alike says that nodes and clients may change places.
func (x *explorer) Alike() search.Alike {
	return search.Alike{Nodes: search.Same(nodes), Clients: search.Same(x.Clients), Others: search.Same(x.Copies)}
}
