package fence_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/redquorum/redquorum/fence"
)

// history is what happens to a resource: locks in the order in which they were acquired, and which
// of them use it, in which order.
type history struct {
	locks []sharedLock
	uses  []int // indexes of locks
}

type sharedLock struct {
	reads bool
	token int64
}

// histories draws locks whose tokens have the order that RWGate relies on, and no other.
var histories = rapid.Custom(func(t *rapid.T) (h history) {
	for range rapid.IntRange(1, 6).Draw(t, "locks") {
		reads, least := rapid.Bool().Draw(t, "reads"), int64(1)
		for _, earlier := range h.locks {
			switch {
			case !reads:
				least = max(least, earlier.token+1)
			case !earlier.reads:
				least = max(least, earlier.token)
			}
		}
		h.locks = append(h.locks, sharedLock{reads, least + rapid.Int64Range(0, 2).Draw(t, "more")})
	}
	h.uses = rapid.SliceOfN(rapid.IntRange(0, len(h.locks)-1), 1, 12).Draw(t, "uses")
	return h
})

// judge returns an error unless each use is refused exactly if a later lock that excludes it has
// used the resource before. It looks at no token.
func (h *history) judge(admit func(reads bool, token int64) bool) error {
	admitted := map[int]bool{}
	for step, i := range h.uses {
		stale := false
		for j := range admitted {
			stale = stale || j > i && !(h.locks[i].reads && h.locks[j].reads)
		}
		if admit(h.locks[i].reads, h.locks[i].token) == stale {
			return fmt.Errorf("%+v: step %d: stale is %t, and so is admitted", *h, step, stale)
		}
		if !stale {
			admitted[i] = true
		}
	}
	return nil
}

func TestRWGateRefusesExactlyTheLocksThatALaterOneExcludes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := histories.Draw(t, "history")
		var g fence.RWGate
		require.NoError(t, h.judge(func(reads bool, token int64) bool {
			if reads {
				return g.AdmitRead(token) == nil
			}
			return g.AdmitWrite(token) == nil
		}))
	})
}

// newest is what a rule for a resource remembers.
type newest struct{ write, read int64 }

// rules are what a gate could do instead. The first is right.
var rules = []struct {
	name        string
	write, read func(n *newest, token int64) bool
}{
	{"right", rightWrite, rightRead},
	{"a reader as large as a writer does not stop it", func(n *newest, token int64) bool {
		return n.take(token >= n.write && token >= n.read, token)
	}, rightRead},
	{"readers do not stop writers", func(n *newest, token int64) bool {
		return n.take(token >= n.write, token)
	}, rightRead},
	{"a writer writes once", func(n *newest, token int64) bool {
		return n.take(token > n.write && token > n.read, token)
	}, rightRead},
	{"writers do not stop writers", func(n *newest, token int64) bool {
		return n.take(token > n.read, token)
	}, rightRead},
	{"a writer forgets the writer before", func(n *newest, token int64) bool {
		if token > n.read {
			n.write = token
			return true
		}
		return false
	}, rightRead},
	{"readers must be above writers", rightWrite, func(n *newest, token int64) bool {
		return token > n.write && rightRead(n, token)
	}},
	{"readers stop readers", rightWrite, func(n *newest, token int64) bool {
		return token >= n.read && rightRead(n, token)
	}},
	{"nothing stops readers", rightWrite, func(n *newest, token int64) bool {
		n.read = max(n.read, token)
		return true
	}},
	{"readers are forgotten", rightWrite, func(n *newest, token int64) bool {
		return token >= n.write
	}},
	{"the last reader counts, not the largest", rightWrite, func(n *newest, token int64) bool {
		if token < n.write {
			return false
		}
		n.read = token
		return true
	}},
	{"one largest token for both", func(n *newest, token int64) bool {
		return n.take(token >= n.write, token)
	}, func(n *newest, token int64) bool {
		return n.take(token >= n.write, token)
	}},
	{"a token is remembered although it is refused", func(n *newest, token int64) bool {
		admitted := token >= n.write && token > n.read
		n.write = max(n.write, token)
		return admitted
	}, rightRead},
}

func rightWrite(n *newest, token int64) bool {
	return n.take(token >= n.write && token > n.read, token)
}

func rightRead(n *newest, token int64) bool {
	if token < n.write {
		return false
	}
	n.read = max(n.read, token)
	return true
}

// take is what follows the decision about a writer.
func (n *newest) take(admitted bool, token int64) bool {
	if admitted {
		n.write = max(n.write, token)
	}
	return admitted
}

// The oracle must tell each wrong rule from the right one.
func TestWrongRulesForReadersAndWritersAreCaught(t *testing.T) {
	const examples = 2000
	for i, rule := range rules {
		var caught error
		at := 0
		for ; at < examples && caught == nil; at++ {
			h, n := histories.Example(at), newest{}
			caught = h.judge(func(reads bool, token int64) bool {
				if reads {
					return rule.read(&n, token)
				}
				return rule.write(&n, token)
			})
		}
		t.Logf("%s: %d histories", rule.name, at)
		if i == 0 {
			require.NoError(t, caught)
		} else {
			require.Error(t, caught, rule.name)
		}
	}
}
