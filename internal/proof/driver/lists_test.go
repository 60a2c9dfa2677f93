package driver_test

import (
	"math/rand/v2"
	"time"

	"github.com/redquorum/redquorum/redlock"
)

// drawLists may have the clients list different masters, which are no cluster yet. All lists share
// a master, so that no two of them lead to clusters that know nothing of each other. Or there are
// two clusters, and each list has most masters of the first, and no more of the second: by more of
// the second a client would enter that one while the others are silent (docs/operations.md).
func (p *plan) drawLists(rng *rand.Rand) {
	if p.lists = rng.IntN(6) == 0 && !p.changes; !p.lists {
		return
	}
	p.masters, p.length = 3+rng.IntN(3), 3*time.Second+upTo(rng, 2*time.Second)
	p.shared = rng.IntN(p.masters)
	if p.rival = p.masters == 5 && rng.IntN(2) == 0; p.rival {
		p.masters += rng.IntN(2)
	}
}

// first is how many masters are the cluster that all clients list most of, where there are two.
const first = 3

// listOfShared draws the masters that a client lists: the one that all do, and some others.
func (p *plan) listOfShared(rng *rand.Rand) []int {
	if p.rival { // most masters of one cluster, and some of another one, or none
		list := rng.Perm(first)[:2+rng.IntN(2)]
		for _, i := range rng.Perm(p.masters - first)[:rng.IntN(min(len(list), p.masters-first)+1)] {
			list = append(list, first+i)
		}
		return list
	}
	list := []int{p.shared}
	for _, i := range rng.Perm(p.masters)[:1+rng.IntN(p.masters)] {
		if i != p.shared {
			list = append(list, i)
		}
	}
	rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// unsettled reports whether it is not settled which masters are members.
func (p *plan) unsettled() bool { return p.changes || p.lists }

// strange reports whether an error may be that a list has the masters of two clusters.
func (r *run) strange(err error) bool { return r.plan.lists && is(err, redlock.ErrInvalid) }
