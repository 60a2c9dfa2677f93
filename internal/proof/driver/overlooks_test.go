package driver_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/redlock"
)

// overlooks has an operator with connections of its own look at all that there is, when nothing is
// under way, and then act: it is told the truth, and changes nothing before it does.
func (r *run) overlooks(held []*handle) {
	if r.plan.unsettled() || r.plan.forgets || !r.look {
		return
	}
	opts := append(slices.Clone(r.options), redlock.WithKeyPrefix(r.plan.prefix), redlock.WithMaxTTL(r.plan.maxTTL), redlock.WithTTL(r.plan.maxTTL), admin.OnlyLooks())
	operator, err := admin.New(r.endpoints[:r.plan.masters], opts...)
	r.promise("New takes what is valid", err == nil, "admin.New: %v", err)
	before := r.aboutCluster()
	operator.AwaitVotes(r.base)
	operator.AwaitMembers(r.base)
	nodes := operator.Stats().Nodes
	strangers := slices.ContainsFunc(nodes, func(n redlock.NodeStats) bool { return admin.HasLeft(&n) || !admin.Votes(&n) })
	r.promise("an operator knows who votes", admin.CountVotes(nodes) == r.plan.masters && len(nodes) == r.plan.masters && !strangers, "%+v", nodes)
	r.lists(operator)
	if len(held) > 0 {
		h := held[0]
		told, err := operator.Ask(r.base, h.lock.Name())
		r.promise("Ask tells of a name", err == nil && (h.hold.Shared || told.Status.Value == h.hold.Value) && len(told.Terms) == 0 || h.lock.Err() != nil, "%v: %+v, %v", h.hold, told, err)
	}
	r.vitals(operator)
	after := r.aboutCluster()
	r.promise("who only looks changes nothing", before == after, "the masters said %s, and say %s", before, after)
	r.takesAway(operator)
	err = operator.Init(r.base, false)
	r.promise("Init where all vote", err == nil, "Init: %v", err)
	closed, open := operator.Close(), admin.Of(r.clients[0].current().locker).Close()
	_, err = operator.Inspect(r.base, "hot")
	r.promise("an operator that is closed", closed == nil && open == nil && is(err, redlock.ErrClosed), "Close: %v, %v; then Inspect: %v", closed, open, err)
}

// aboutCluster returns what the masters keep about their cluster.
func (r *run) aboutCluster() string {
	var all []string
	for _, m := range r.masters {
		marker, _, _ := m.get(memoryKey)
		register, _, _ := m.get(membersKey)
		all = append(all, marker, register)
	}
	return strings.Join(all, "; ")
}

// lists compares a list of locks with the keys of the masters.
func (r *run) lists(operator *admin.Operator) {
	keep := func() map[string]bool {
		names := make(map[string]bool)
		for _, m := range r.masters {
			for _, key := range m.keys() {
				if _, ttl, _ := m.get(key); ttl > 0 && !strings.HasPrefix(key, "redquorum:") {
					names[key] = true
				}
			}
		}
		return names
	}
	want := keep()
	locks, err := operator.List(r.base, "*")
	if fmt.Sprint(want) != fmt.Sprint(keep()) {
		return // a validity has ended meanwhile
	}
	for i, lock := range locks {
		r.promise("List tells what is held", want[lock.Name] && (i == 0 || locks[i-1].Name < lock.Name), "%q is at no master, or not in order: %+v", lock.Name, locks)
	}
	r.promise("List tells what is held", err == nil && len(locks) == len(want), "%v: %v, and there are: %v", locks, err, want)
	scanned, err := operator.Scan(r.base, admin.Query{Pattern: "hot*", Locks: 10})
	found := len(scanned.Answers) == 1 && scanned.Answers[0].Status.Name == "hot"
	r.promise("Scan asks about what it finds", err == nil && len(scanned.Masters) == r.plan.masters && (found || !want["hot"] && len(scanned.Answers) == 0), "%+v, %v", scanned, err)
}

// vitals looks at what masters tell of their clocks.
func (r *run) vitals(operator *admin.Operator) {
	all := operator.Vitals(r.base)
	r.promise("each master has its vitals", len(all) == r.plan.masters, "%+v", all)
	for i, v := range all {
		ahead := time.Duration(0)
		if i == r.plan.wrong {
			ahead = r.plan.clock
		}
		r.promise("each master has its vitals", v.Err == nil && v.HasClock && (v.Clock-ahead).Abs() <= 20*latency, "master %d is ahead by %v: %+v", i, ahead, v)
	}
}

// takesAway has an operator take a lock from its holder, for a reason.
func (r *run) takesAway(operator *admin.Operator) {
	life, name := r.clients[0].current(), r.fresh()
	lock, err := life.locker.TryLock(r.base, name, redlock.WithTTL(r.plan.maxTTL), redlock.WithoutRenewal())
	if err != nil {
		return
	}
	life.got.Add(1)
	_, err = operator.Force(r.base, name, "another")
	r.promise("who was not seen keeps its lock", is(err, admin.ErrChanged), "ForceUnlock of another value: %v", err)
	const reason = "it burns"
	before := lock.Remaining()
	taken, err := operator.Because(reason).Force(r.base, name, lock.Value())
	r.promise("Force tells what it took away", err == nil && taken.Value == lock.Value() && taken.Left >= lock.Remaining() && taken.Left <= before+r.plan.maxTTL && taken.Unlogged == nil,
		"of %q, with %v left: %+v, %v", lock.Value(), before, taken, err)
	verified := lock.Verify(r.base)
	r.promise("a forced holder learns with its next round", is(verified, redlock.ErrLost), "it was forced, and Verify: %v", verified)
	entries, err := operator.Log(context.WithoutCancel(r.base))
	told := slices.ContainsFunc(entries, func(e admin.Entry) bool {
		return e.Kind == admin.KindForced && strings.HasSuffix(e.Key, name) && e.Why == reason
	})
	r.promise("the log tells of changes", err != nil || told, "a lock was forced because %q: %+v", reason, entries)
}
