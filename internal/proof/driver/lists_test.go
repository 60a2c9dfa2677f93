package driver_test

import (
	"math/rand/v2"
	"slices"
	"strings"
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
		p.late = rng.IntN(2) == 0
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

// leading is a cluster of which a list has a majority of the members.
type leading struct{ cluster, members string }

// leadingOf returns the clusters that count by what the masters of a list were told, and whether
// any of these masters belongs to one.
func (r *run) leadingOf(list []int) (clusters []leading, any bool) {
	told := make(map[leading]int)
	for _, i := range list {
		marker, _, _ := r.masters[i].get("redquorum:memory")
		register, _, _ := r.masters[i].get("redquorum:members")
		any = any || strings.Contains(marker, " cluster=")
		lines := strings.Split(register, "\n")
		if versionOf(r.masters[i]) == 0 || len(lines) < 2 {
			continue
		}
		words := strings.Fields(lines[1]) // version, the one before, cluster, two times, and the members
		_, rest, _ := strings.Cut(marker, " member=")
		id, _, _ := strings.Cut(rest, " ")
		if slices.ContainsFunc(words[5:], func(w string) bool { return strings.HasPrefix(w, id+"=") }) {
			told[leading{words[2], lines[1]}]++
		}
	}
	for one, by := range told {
		if members := len(strings.Fields(one.members)) - 5; by > members/2 {
			clusters = append(clusters, one)
		}
	}
	return clusters, any
}

// lookAtLists looks in calm times what lists lead to: those of clients that are there, and of some
// that begin. (docs/operations.md)
func (r *run) lookAtLists() {
	ofSeveral := func(p clientPlan) bool { clusters, _ := r.leadingOf(p.list); return len(clusters) > 1 }
	if slices.ContainsFunc(r.plan.clients, ofSeveral) { // a client that counts by one cluster hears of the other when it connects again
		for _, m := range r.masters {
			m.breaks("disconnects", 0)()
		}
		time.Sleep(2 * time.Second)
	}
	for i := range r.plan.clients {
		p := &r.plan.clients[i]
		clusters, any := r.leadingOf(p.list)
		beginner := r.newClient(p).current()
		_, err := beginner.locker.TryLock(r.base, r.fresh(), redlock.WithoutRenewal())
		if err == nil && len(clusters) > 1 { // those of the other one may not have answered yet
			time.Sleep(10 * latency)
			_, err = beginner.locker.TryLock(r.base, r.fresh(), redlock.WithoutRenewal())
		}
		r.promise("a list without a majority of the members leads to nothing", err != nil || !any || len(clusters) > 0, "%s begins with %v, and has a lock", p.who, p.list)
		lock, old := r.clients[i].current().locker.TryLock(r.base, r.fresh())
		small := slices.ContainsFunc(clusters, func(one leading) bool { return len(strings.Fields(one.members)) == 6 })
		r.promise("masters of two clusters in one list grant nothing", len(clusters) < 2 || small || err != nil && is(old, redlock.ErrInvalid),
			"%s lists %v, of %v: %v, and one that begins: %v", p.who, p.list, clusters, old, err)
		if old == nil {
			r.clients[i].current().got.Add(1)
			_ = lock.Unlock(r.base) //nolint:errcheck // it is what matters that it was granted
		}
		_ = beginner.locker.Close()
	}
}
