package search

import (
	"github.com/redquorum/redquorum/clock"
	proof "github.com/redquorum/redquorum/internal/proof/search"
	"github.com/redquorum/redquorum/redlock/internal/members/core"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

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

	Operators int // at a time, 1..2
	Ballots   int // for each version, 1..6
	Versions  int // 1..4
	Forgets   int // how often a master forgets, 0..3
	Revivals  int // how often the marker of an earlier life comes back

	// Rejoined forgot before the search begins, and are back at the first one by the word of Late.
	Rejoined set

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

// Rules are what may be done besides.
type Rules struct {
	TwoAtOnce   bool // a mistake: an operator changes two members at once
	LongBallots bool // a mistake: a master is back that forgot before ballots are over that it promised
	KeepsVotes  bool // no mistake: a client that learns of a version keeps the votes that it has
}

// Explore searches all worlds of the Config for one that breaks a claim.
func Explore(config Config, rules Rules) proof.Report {
	return proof.Run(func() proof.Model[world] { return newExplorer(config, rules) })
}

type explorer struct {
	Config
	Rules
	alike []int

	// What small numbers stand for (masters_test.go).
	rosters map[text]*record.Roster
	clients map[lives]*core.Client
	reports map[said]*core.Report
	beliefs map[belief]text

	ballotsEnd bool // before a master is back that forgot what it promised
}

func newExplorer(config Config, rules Rules) *explorer {
	if config.Clients > maxClients || len(config.Later) >= maxVersions || config.Operators > maxOperators || config.Versions > maxVersions ||
		config.Ballots > maxBallots {
		panic("members: no such world")
	}
	x := &explorer{
		Config: config, Rules: rules,
		rosters: map[text]*record.Roster{}, clients: map[lives]*core.Client{}, reports: map[said]*core.Report{}, beliefs: map[belief]text{},
	}
	x.ballotsEnd = x.endsInTime() && !x.LongBallots
	for m, run := 0, 0; m < masters; m++ { // neighbours to whom the same may happen
		for _, s := range append([]set{config.First, config.Adds, config.Removes, config.Late, config.Rejoined, config.Forgotten}, config.Later...) {
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
	t := text(0)
	for i, members := range append([]set{x.First}, x.Later...) {
		t = t.next(members)
		w.known[t.number()] = t
		for m := range masters {
			switch {
			case i == 0 && x.Rejoined.has(m):
				w.masters[m] = master{state: active, told: t, promised: unlearned}
			case members.has(m) && (i == 0 || !(x.Late | x.Rejoined).has(m)):
				w.masters[m] = master{state: active, told: t}
			}
		}
	}
	if x.Forgotten != 0 {
		w.operators[0] = operator{stage: telling, cur: t, value: t.next(x.Forgotten)}
	}
	w.forgets, w.revivals = uint8(x.Forgets), uint8(x.Revivals)
	return w
}

type visitor = func(next *world, e proof.Event)

// endsInTime reports whether a ballot is over before a master is back that forgot when it had
// promised: whether it lasts for half a quarantine at most, at whoever proposes and at each master.
func (x *explorer) endsInTime() bool {
	t := textOf(1, 0, x.First)
	r := *x.report(&master{state: active, told: t}, 0)
	b := core.NewBallot([]core.Report{r}, maxTTL, 0)
	half := core.Quarantine(maxTTL) / 2
	promise := x.client(0).AskPromises(x.roster(t), b, []core.Report{r})
	r.Register = *promise[0].Register
	_, accept := core.Choice{Of: x.roster(textOf(1, 0, 1)), Ballot: b}.Propose([]core.Report{r}, x.roster(t))
	return b.Over <= clock.Instant(0).Add(half) && accept[0].Latest > 0 && accept[0].Latest <= now+half.Milliseconds()
}

// Each visits every step.
func (x *explorer) Each(w *world, visit visitor) {
	all := x.all(w)
	for c := range x.Clients {
		x.counts(w, c, visit)
	}
	for o := range x.Operators {
		x.operator(w, all, o, visit)
	}
	for _, t := range w.texts() {
		x.tends(w, all, t, visit)
	}
	for m := range masters {
		x.fault(w, m, visit)
		x.lifetimes(w, m, visit)
	}
}

// What a step may be.
const (
	Votes     proof.Kind = "votes"
	Holds     proof.Kind = "votes, and the lock is held"
	Ends      proof.Kind = "attempt or lock is over"
	Moves     proof.Kind = "learns of a newer version, and keeps its votes"
	Begins    proof.Kind = "begins to propose"
	Promises  proof.Kind = "promises"
	Meets     proof.Kind = "was told the next version, which an operator finishes"
	Decides   proof.Kind = "has a majority of promises, and proposes its own change"
	Finishes  proof.Kind = "has a majority of promises, and proposes what it found"
	Accepts   proof.Kind = "accepts"
	Knows     proof.Kind = "was told what it is asked to accept"
	Chooses   proof.Kind = "accepts, and the version is chosen"
	Dies      proof.Kind = "operator is gone"
	IsTold    proof.Kind = "is told"
	Completes proof.Kind = "is told, and the version counts"
	Rejoins   proof.Kind = "rejoins"
	Learns    proof.Kind = "learns, and takes part in the choice again"
	RejoinsAs proof.Kind = "joins as a member that does not answer"
	Forgets   proof.Kind = "forgets"
	Notes     proof.Kind = "is shown a life"
	Revives   proof.Kind = "has the marker of an earlier life again"
	FindsOut  proof.Kind = "is found to be in an earlier life, and waits"
)

// The claims.
const (
	oneHolder  = "one client holds the lock at a time"
	oneVersion = "one membership counts for each version"
	oneChoice  = "one membership is chosen for each version"
	neverBack  = "a version never goes back at a master that remembers"
	onlyVotes  = "a vote counts of a member only"

	findsNewest = "a client that slept through changes finds the version that counts"
)
