package memory

import (
	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/redquorum/redquorum/internal/proof/spec"
)

// Config is how much of the world a search covers. Clients make any number of attempts, connect as
// often as they like, and see changes as late as they like.
type Config struct {
	Clients  int  // 1..3
	Strict   bool // no client takes the cluster for a new one
	Formed   bool // the nodes are active to begin with, and nobody knows them yet
	Durable  bool // the nodes are durable to begin with
	Faults   int  // of nodes, 0..3
	Kinds    Fault
	Restarts int // of clients, which forget all they know, 0..3
	Copies   int // of nodes' data, 0..2: snapshots, and replicas that are cut off

	Toggle bool // a node may become durable by a restart, or no longer be
	Tear   bool // from a restart on, a node may load a part of its log, or all of it again
	Renew  bool // a master may change its replid after its last replica went

	// Racing lets time pass between what a client reads at a handshake and what it then writes.
	// Without it, only the activation of a new cluster takes time.
	Racing bool

	Track bool // mark locks that are held by the vote of a node that had a fault

	// Cases outside of the promise.
	Forget     bool // a new cluster may be activated over a lock that every node has forgotten
	OwnReplica bool // a node may take over its own old data while connections stay
	Reborn     bool // a durable node may take over other data, and restart before a client sees it
	Rollback   bool // a durable node may come up with older data of its durable self
	Unseen     bool // a node may load a part of its log, and be one that loads all before a client sees it
}

// A Fault is a set of what may happen to a node's data.
type Fault uint8

// What may happen to a node's data.
const (
	Empty     Fault = 1 << iota // a new process begins with no data
	Stale                       // a new process begins with a copy
	Full                        // a new process begins with all data, if the old one was durable
	Flush                       // the data disappears, the process and its connections stay
	Replica                     // the node becomes a replica of another one, and a master again
	OldMaster                   // the node becomes a replica of a copy, and a master again
	Part                        // a new process begins with a part of the data, if it loads no more
	Single                      // the key disappears, and nothing else: always outside of the promise

	AnyFault = Empty | Stale | Full | Flush | Replica | OldMaster
)

// Rules are the protocol. The zero Rules are the right ones; anything set is a mistake to be found.
type Rules struct {
	NoProof        bool // votes count without a proof
	ProveFirst     bool // GET before the votes
	ProveNoRun     bool // the proof compares incarnations only, not the run id
	CountNew       bool // votes count under new, too
	CountWaiting   bool // votes count under new and lost, by their incarnation
	MajorityIsNew  bool // a cluster is new when a majority is
	OneLook        bool // a cluster is new when every node was new at some time
	LostIsNew      bool // a cluster is new when every node is new or lost
	AnyRun         bool // the run id does not matter: data that comes from a disk is believed
	AnyRunWaiting  bool // the run id does not matter if the marker is new or lost
	OwnClock       bool // T passes by the clients' clocks, at any time
	Blind          bool // active is written without a comparison
	LoadsAll       bool // that a server loads a part of its log does not matter
	LoadsThen      bool // nor that it loads a part now
	LoadsNow       bool // nor that it loaded a part when the marker was written
	DurableNow     bool // durable is believed if the server says so
	DurableThen    bool // durable is believed if the marker says so
	PromotedTrust  bool // durable is believed although the node was a replica
	ElsewhereTrust bool // durable is believed even if another node has the incarnation
	ElsewhereKnown bool // durable is believed if no node that can be read has the incarnation
	NoWitness      bool // replids do not matter
	WitnessActive  bool // replids do not matter if the marker is new or lost
	Unknowing      bool // a client that knew the node writes new like any other
	LeaveNew       bool // a client that knew the node leaves a new marker as it is
	SameName       bool // lost keeps the incarnation
}

// Explore searches all worlds of the Config for one in which two clients hold the lock.
func Explore(config Config, rules Rules) search.Report {
	return search.Run(func() search.Model[world] { return newExplorer(config, rules) })
}

type explorer struct {
	Config
	Rules
	tidy bool // an incarnation that no data has does not come back
}

func newExplorer(config Config, rules Rules) *explorer {
	if config.Clients < 1 || config.Clients > maxClients || config.Copies > maxCopies {
		panic("memory: no such world")
	}
	x := &explorer{Config: config, Rules: rules}
	x.tidy = !rules.NoProof && !rules.ProveFirst && !rules.Blind && !rules.OneLook
	return x
}

// Start is a world in which nothing has happened yet.
func (x *explorer) Start() (w world) {
	w.faults, w.restarts = uint8(x.Faults), uint8(x.Restarts)
	for n := range w.nodes {
		at := &w.nodes[n]
		at.durable = x.Durable
		if x.Formed {
			at.memory = memory{state: spec.Active, incarnation: uint8(n + 1), run: runOf(n), durable: x.Durable, replid: true}
			at.whole = true
		}
	}
	return w
}

// What a step may be.
const (
	Waits            search.Kind = "connects, and waits"
	SeesNew          search.Kind = "connects, and sees the marker new"
	Admits           search.Kind = "connects, and admits"
	Intends          search.Kind = "connects, and is about to write"
	WritesNew        search.Kind = "writes new"
	WritesLost       search.Kind = "writes lost"
	MakesLost        search.Kind = "writes lost for new"
	ActivatesByTime  search.Kind = "writes active, because T has passed, and admits"
	TakesRun         search.Kind = "writes the present run id, and admits"
	SwapFails        search.Kind = "writes in vain: the text has changed"
	SeesNewAgain     search.Kind = "sees the marker new again"
	SeesOtherwise    search.Kind = "looks again, and the marker has changed"
	SeesOnce         search.Kind = "is content with one look"
	ActivatesCluster search.Kind = "writes active, because all are new, and admits"
	IsGranted        search.Kind = "SET is granted"
	Counts           search.Kind = "GET proves the vote"
	DoesNotCount     search.Kind = "GET does not prove the vote"
	ProvesFirst      search.Kind = "GET comes before the vote"
	Holds            search.Kind = "GET proves the vote, and the lock is held"
	HoldsByHurt      search.Kind = "GET proves the vote, and the lock is held by a node that had a fault"
	Ends             search.Kind = "attempt or lock is over"
	ClientRestarts   search.Kind = "restarts, and knows nothing"
	Copies           search.Kind = "data is copied"
	RestartsEmpty    search.Kind = "crashes, and begins empty"
	RestartsWithCopy search.Kind = "crashes, and begins with a copy"
	RestartsDurable  search.Kind = "crashes, and begins with all its data"
	RestartsInPart   search.Kind = "crashes, and begins with a part of its data"
	LosesTheKey      search.Kind = "the key disappears"
	Flushed          search.Kind = "data is flushed"
	ReplicatesOther  search.Kind = "becomes a replica of another node, and a master again"
	ReplicatesCopy   search.Kind = "becomes a replica of another node's copy, and a master again"
	ReplicatesItself search.Kind = "becomes a replica of its own copy, and a master again"
	RenewsReplid     search.Kind = "changes its replid"
)

// The claim.
const oneHolder = "one client holds the lock at a time"

// at is a step of a client at a node, which now has this state.
func at(w *world, kind search.Kind, c, n int) search.Event {
	return search.Event{Kind: kind, Client: c, Node: n, Note: w.nodes[n].state.String()}
}

// by is a step of a client alone.
func by(kind search.Kind, c int) search.Event {
	return search.Event{Kind: kind, Client: c, Node: search.Nowhere}
}
