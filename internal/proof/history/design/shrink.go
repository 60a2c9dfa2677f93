package design

import (
	"slices"
	"strings"
)

// Shrink plays a history that breaks a claim with fewer and fewer uses and faults, for as long as
// it still breaks it, and returns what happens in the smallest one, until then. If the claim is
// [Nothing], it is the first that the history breaks.
func Shrink(seed, i uint64, rules Rules, claim Claim) (lines []string) {
	p := *newPlanner().make(seed, i)
	w := &world{rules: rules}
	if w.play(&p); !w.breaks(claim) {
		return nil
	}
	if claim == Nothing {
		claim = w.first
	}
	p = shrink(p, func(p plan) bool {
		w.play(&p)
		return w.broken[claim]
	})
	lines, _ = tell(&p, rules)
	end := slices.IndexFunc(lines, func(line string) bool { return strings.HasSuffix(line, claim.String()) })
	return lines[:end+1]
}

// shrink makes a plan simpler, one step after the other, until every step makes it one that does
// not fail.
func shrink(p plan, fails func(plan) bool) plan {
	for again := true; again; {
		again = false
		try := func(smaller plan) bool {
			if !fails(smaller) {
				return false
			}
			p, again = smaller, true
			return true
		}
		for size := len(p.items); size > 0; size /= 2 {
			for at := 0; at < len(p.items); {
				smaller := p
				smaller.items = slices.Delete(slices.Clone(p.items), at, min(at+size, len(p.items)))
				if !try(smaller) {
					at += size
				}
			}
		}
		for _, smaller := range p.smaller() {
			try(smaller)
		}
		for at := range p.items {
			for _, simpler := range p.items[at].simpler() {
				smaller := p
				smaller.items = slices.Clone(p.items)
				smaller.items[at] = simpler
				try(smaller)
			}
		}
	}
	return p
}

// smaller returns the plan with fewer nodes, with fewer clients, and without noise, where that can
// be.
func (p plan) smaller() (others []plan) {
	used := 0
	for _, it := range p.items {
		used = max(used, int(it.client)+1)
	}
	if used < p.clients {
		other := p
		other.clients = used
		others = append(others, other)
	}
	for nodes := range p.nodes {
		other := p
		other.nodes = nodes
		other.items = slices.DeleteFunc(slices.Clone(p.items), func(i item) bool { return int(i.node) >= nodes })
		if nodes > 0 {
			others = append(others, other)
		}
	}
	if p.noise != 0 {
		p.noise = 0
		others = append(others, p)
	}
	return others
}

// simpler returns what may do instead of an item.
func (i item) simpler() (others []item) {
	add := func(change func(*item)) {
		other := i
		if change(&other); other != i {
			others = append(others, other)
		}
	}
	if i.kind == uses {
		add(func(o *item) { o.tries = 1 })
		add(func(o *item) { o.renews = false })
		add(func(o *item) { o.other = o.ttl })
		add(func(o *item) { o.reads = false })
		add(func(o *item) { o.hold = o.ttl * millisecond })
	}
	for n := range maxNodes {
		if rest := i.mask &^ (1 << n); rest != 0 {
			add(func(o *item) { o.mask = rest })
		}
	}
	return others
}
