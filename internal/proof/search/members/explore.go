package members

import "github.com/redquorum/redquorum/internal/proof/search"

// Config is how much of the world a search covers. Operators propose as often as there are ballots,
// and may die at any step. Clients make any number of attempts, and see changes as late as they
// like.
type Config struct {
	First   set   // the members to begin with
	Later   []set // the memberships that followed, and were told, before the search begins
	Late    set   // who was told the first one only
	Adds    set   // who may be added
	Removes set   // who may be removed
	Clients int   // 0..3
	Lists   []set // of the clients, for rules that count by lists

	Operators int // at a time, 1..2
	Ballots   int // for each version, 1..6
	Versions  int // 1..4
	Forgets   int // how often a master forgets, 0..3
	Revivals  int // how often the marker of an earlier life comes back

	// Forgotten followed the first one: its majority chose it, and forgot that, and who chose it
	// has told it to nobody yet.
	Forgotten set
	// Choices also looks for a version that is chosen twice, one of which never counts.
	Choices bool
	// Ahead is the case outside of the promise: a master comes back that was removed, and a
	// forgetful one rejoins by its word, because no member of the newest membership answers.
	Ahead bool
	// Outside, too: a marker comes back when only one other member was shown the loss, or during an
	// attempt that began before.
	NotedByOne, Meanwhile bool
}

// Rules are the protocol. The zero Rules are the right ones; anything set is a mistake to be found,
// unless its comment says that it does no harm.
type Rules struct {
	OwnList         bool // a quorum is a majority of the client's list
	AnyActive       bool // a vote counts of whoever names the text, member or not
	CountsAccepted  bool // a version counts where it was accepted, chosen or not
	IgnoresNewer    bool // a vote counts although its marker names a newer version
	NoWait          bool // the next change need not wait
	WaitsFromAccept bool // the wait counts from the acceptance, not from being told
	TwoAtOnce       bool // a change is of two members
	Behind          bool // a change begins although members have not been told the last one
	NoBallots       bool // an acceptance needs no ballot
	IgnoresFound    bool // a proposer does not finish what it finds
	OldPromise      bool // an acceptance counts from another incarnation than promised
	Unlearned       bool // who rejoins keeps nothing of what it learned about the choice
	RejoinsFirst    bool // who rejoins does so at version 1
	TellsOver       bool // a version is told over another one that was accepted
	TellsOlder      bool // a version is told whatever the master was told before
	LearnsFromOne   bool // who rejoins takes part in the choice once one other has told what it knows
	LongBallots     bool // who rejoins does not wait for ballots that it may have promised
	Elimination     bool // an empty stranger rejoins as the member that does not answer
	Hurried         bool // who rejoins does not wait
	AnyLife         bool // a marker of an earlier life counts, for votes and for the choice
	EarlierVotes    bool // what a marker says of the others counts for later votes only

	FinishesEarly bool // who finishes a change tells it before a majority holds to it

	OnlySame   bool // no mistake: a vote counts only if its marker names the same version
	KeepsVotes bool // no mistake: a client that learns of a version keeps the votes it has
}

// Explore searches all worlds of the Config for one that breaks a claim.
func Explore(config Config, rules Rules) search.Report {
	return search.Run(func() search.Model[world] { return newExplorer(config, rules) })
}

type explorer struct {
	Config
	Rules
	alike []int
}

func newExplorer(config Config, rules Rules) *explorer {
	if config.Clients > maxClients || len(config.Later) >= maxVersions || config.Operators > maxOperators || config.Versions > maxVersions ||
		config.Ballots > maxBallots {
		panic("members: no such world")
	}
	x := &explorer{Config: config, Rules: rules}
	for m, run := 0, 0; m < masters; m++ { // neighbours to whom the same may happen
		for _, s := range append([]set{config.First, config.Adds, config.Removes, config.Late, config.Forgotten}, config.Later...) {
			if m > 0 && s.bit(m) != s.bit(m-1) {
				run = m
			}
		}
		x.alike = append(x.alike, run)
	}
	return x
}

// Start is a cluster that all members were told of, long ago.
func (x *explorer) Start() (w world) {
	for i, members := range append([]set{x.First}, x.Later...) {
		t := textOf(i+1, members)
		w.known[t.number()] = t
		for m := range masters {
			if members.has(m) && (i == 0 || !x.Late.has(m)) {
				w.masters[m] = master{state: active, told: t}
			}
		}
	}
	if x.Forgotten != 0 {
		w.operators[0] = operator{stage: telling, cur: textOf(1, x.First), value: textOf(2, x.Forgotten)}
	}
	w.forgets, w.revivals = uint8(x.Forgets), uint8(x.Revivals)
	return w
}

type visitor = func(next *world, e search.Event)

// Each visits every step.
func (x *explorer) Each(w *world, visit visitor) {
	for c := range x.Clients {
		x.client(w, c, visit)
	}
	for o := range x.Operators {
		x.operator(w, o, visit)
	}
	for n := 2; n <= x.Versions; n++ {
		if w.known[n] != 0 {
			x.tell(w, w.known[n], search.Nobody, visit)
		}
	}
	for m := range masters {
		x.fault(w, m, visit)
		x.lifetimes(w, m, visit)
		x.findsOut(w, m, visit)
	}
}

// What a step may be.
const (
	Votes     search.Kind = "votes"
	Holds     search.Kind = "votes, and the lock is held"
	Ends      search.Kind = "attempt or lock is over"
	Moves     search.Kind = "learns of a newer version, and keeps its votes"
	Begins    search.Kind = "begins to propose"
	Promises  search.Kind = "promises"
	Meets     search.Kind = "was told the next version, which an operator finishes"
	Decides   search.Kind = "has a majority of promises, and proposes its own change"
	Finishes  search.Kind = "has a majority of promises, and proposes what it found"
	Accepts   search.Kind = "accepts"
	Chooses   search.Kind = "accepts, and the version is chosen"
	Dies      search.Kind = "operator is gone"
	IsTold    search.Kind = "is told"
	Completes search.Kind = "is told, and the version counts"
	Rejoins   search.Kind = "rejoins"
	Learns    search.Kind = "learns, and takes part in the choice again"
	RejoinsAs search.Kind = "joins as a member that does not answer"
	Forgets   search.Kind = "forgets"
	Notes     search.Kind = "is shown a life"
	Revives   search.Kind = "has the marker of an earlier life again"
	FindsOut  search.Kind = "is found to be in an earlier life, and waits"
)

// The claims.
const (
	oneHolder  = "one client holds the lock at a time"
	oneVersion = "one membership counts for each version"
	oneChoice  = "one membership is chosen for each version"
	neverBack  = "a version never goes back at a master that remembers"
	onlyVotes  = "a vote counts of a member only"
)
