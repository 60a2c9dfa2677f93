package fence

import (
	"github.com/redquorum/redquorum/internal/proof/search"
	"github.com/redquorum/redquorum/internal/proof/spec"
)

// The claims.
const (
	unique  = "tokens are unique"
	ordered = "a later acquisition has a larger token"
)

// Config is how much of the world a search covers. Clients make any number of attempts, in any
// order, and up to Clients at once. MaxFence limits everything that happens.
//
// Nothing is assumed of time. A key may expire at any step. Timestamps are any numbers up to
// MaxTimestamp, and differ for each message, because nodes clamp them to clocks of their own. A
// message that was sent stays in the network for good: it may arrive at any time, again, behind
// messages sent later, or never.
type Config struct {
	Nodes        int  // 1..5
	Clients      int  // 1..3
	MaxFence     int  // 1..5; steps that lead above it are left out
	MaxTimestamp int  // 0..MaxFence
	Waiting      bool // attempts may wait at a coordinator
	Adopting     bool // attempts may adopt any lock they find

	// LateRaises lets attempts that are over raise to any number, whether or not they ever had it.
	// With a right Raise this leads nowhere that a late SET does not. It is for wrong ones that do
	// no harm.
	LateRaises bool
}

// Rules are the protocol. The zero Rules are the right ones; anything set is a mistake to be found.
type Rules struct {
	First  func([]int64) Decision                             // instead of [First]
	Second func([]int64, int64) Decision                      // instead of [Second]
	Raise  func(s spec.Entries[Value], v Value, t int64) bool // instead of spec.Entries.Raise

	OnlyOrder     bool // no mistake: look only for tokens that are out of order, not for equal ones
	LoseCounters  bool // a node may lose its counter, and votes at once
	KeepAnswers   bool // a client may reuse the value and the answers of its last attempt
	TrustHandOver bool // a waiter counts a vote that was handed to it with the fence that it finds
	AdoptInPlace  bool // an adopting client keeps the value that it adopts
	TrustAdopted  bool // an adopting client leaves the fence as it is
}

// Explore searches all worlds of the Config for one in which the Rules break a claim.
func Explore(config Config, rules Rules) search.Report {
	return search.Run(func() search.Model[world] { return newExplorer(config, rules) })
}

type explorer struct {
	Config
	Rules
	decisions map[decisionKey]outcome
	scratch   spec.Entry[Value]
	one       spec.Entries[Value] // scratch
}

func newExplorer(config Config, rules Rules) *explorer {
	search.Default(&rules.First, First)
	search.Default(&rules.Second, Second)
	search.Default(&rules.Raise, spec.Entries[Value].Raise)
	if config.MaxFence > maxFence || config.MaxFence < 2 || config.Nodes > maxNodes || config.Clients > maxClients {
		panic("fence: no such world")
	}
	x := &explorer{Config: config, Rules: rules, decisions: make(map[decisionKey]outcome)}
	x.one = spec.Entries[Value]{&x.scratch}
	return x
}

// Start is a world in which everybody is idle.
func (x *explorer) Start() (w world) { return w }

// decisionKey is the answers that a client may have. The target is 0 in the first round.
type decisionKey struct {
	answers [maxNodes]uint8
	target  int8
}

// outcome is what a client may decide, depending on which of its answers have arrived: sets of
// numbers, bit t-1 for t.
type outcome struct{ tokens, targets uint16 }

// decide passes every choice of one answer per node, or none, to the decision.
func (x *explorer) decide(c *client) outcome {
	key := decisionKey{answers: c.answers}
	if c.phase == raising {
		key.target = c.target
	}
	if known, ok := x.decisions[key]; ok {
		return known
	}
	var all outcome
	votes := make([]int64, x.Nodes)
	var choose func(n int)
	choose = func(n int) {
		if n == x.Nodes {
			all.add(x.verdict(votes, key.target), votes)
			return
		}
		votes[n] = 0
		choose(n + 1)
		for f := range x.MaxFence {
			if key.answers[n]>>f&1 == 0 {
				continue
			}
			votes[n] = int64(f + 1)
			if key.target != 0 { // the two bits of a raising client
				votes[n] = int64(key.target) - 1 + int64(f)
			}
			choose(n + 1)
		}
	}
	choose(0)
	x.decisions[key] = all
	return all
}

func (x *explorer) verdict(votes []int64, target int8) Decision {
	if target == 0 {
		return x.First(votes)
	}
	return x.Second(votes, int64(target))
}

// add adds a decision on votes. A caller may raise to anything that was granted.
func (o *outcome) add(d Decision, votes []int64) {
	if d.Token > 0 {
		o.tokens |= 1 << (d.Token - 1)
	}
	for _, v := range votes {
		if d.Uneven && v > 0 {
			o.targets |= 1 << (v - 1)
		}
	}
}
