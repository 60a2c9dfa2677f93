package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/redquorum/redquorum/clock"
)

// Violation is something that must not happen.
type Violation struct {
	Name     string
	What     string
	From, To clock.Instant
}

func (v Violation) String() string { return fmt.Sprintf("%q: %s", v.Name, v.What) }

// Case is all holds of a name, or all permits of a semaphore, and what is wrong with them.
type Case struct {
	Name  string
	Holds []*Hold
	Found []Violation
	Early []Violation // holds within a minimum hold, of which porcupine knows nothing
	model Model
}

// Judge judges each name, and each semaphore. With tokensOnly, two may hold a lock at once, because
// masters forget it; the tokens must be in order.
func Judge(holds []*Hold, tokensOnly bool) (cases []*Case) {
	names, semaphores := grouped(holds)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		c := &Case{Name: name, Holds: names[name], model: modelOf(names[name], tokensOnly)}
		if !tokensOnly {
			c.judgeExclusion()
		}
		c.judgeTokens(tokensOnly)
		c.judgeMinHolds()
		cases = append(cases, c)
	}
	for _, name := range slices.Sorted(maps.Keys(semaphores)) {
		c := &Case{Name: name, Holds: semaphores[name], model: Semaphore}
		c.judgePermits()
		cases = append(cases, c)
	}
	return cases
}

// All returns what is wrong in any of the cases, in the order of time.
func All(cases []*Case) (found []Violation) {
	for _, c := range cases {
		found = append(append(found, c.Found...), c.Early...)
	}
	slices.SortStableFunc(found, func(a, b Violation) int { return cmp.Compare(a.From, b.From) })
	return found
}

// Disagreement has porcupine judge the case. It returns "" if that finds it as we do.
func (c *Case) Disagreement() string {
	want, events := Legal, Events(c.Name, c.Holds)
	if len(c.Found) > 0 {
		want = Illegal
	}
	if found := Check(events, c.model); found != want {
		return fmt.Sprintf("%q, %d events: our own judge finds it %v, and porcupine %v", c.Name, len(events), want, found)
	}
	return ""
}

func modelOf(holds []*Hold, tokensOnly bool) Model {
	switch {
	case tokensOnly:
		return Tokens
	case slices.ContainsFunc(holds, func(h *Hold) bool { return h.Shared }):
		return Shared
	default:
		return Mutex
	}
}

func (c *Case) violate(h *Hold, format string, args ...any) {
	c.Found = append(c.Found, Violation{Name: c.Name, From: h.From, To: h.To, What: fmt.Sprintf(format, args...)})
}

// judgeExclusion finds holders beside a writer.
func (c *Case) judgeExclusion() {
	var writer, reader *Hold // those that end last
	for _, h := range c.Holds {
		if h.Late {
			continue
		}
		for _, other := range []*Hold{writer, reader} {
			if other != nil && h.From < other.To && !(h.Shared && other.Shared) {
				c.violate(h, "%v from %v, and until %v %v", h, time.Duration(h.From), time.Duration(other.To), other)
			}
		}
		last := &writer
		if h.Shared {
			last = &reader
		}
		if *last == nil || h.To > (*last).To {
			*last = h
		}
	}
}

// peak is the holds with the largest tokens so far.
type peak struct{ writer, reader *Hold }

func (p peak) with(h *Hold) peak {
	most := &p.writer
	if h.Shared {
		most = &p.reader
	}
	if *most == nil || h.Token > (*most).Token {
		*most = h
	}
	return p
}

// above returns a hold whose token must be below that of a later one, and is not. Readers may have
// the token of the writer before them, and have no order among themselves.
func (p peak) above(h *Hold) *Hold {
	switch {
	case p.writer != nil && (h.Token < p.writer.Token || h.Token == p.writer.Token && !h.Shared):
		return p.writer
	case !h.Shared && p.reader != nil && h.Token <= p.reader.Token:
		return p.reader
	default:
		return nil
	}
}

// judgeTokens finds writers with one token, and tokens that are out of order. The later lock has
// the larger token if its call began after the first one was acquired and, as long as the lock is
// exclusive, if it was acquired after the first one had ended.
func (c *Case) judgeTokens(tokensOnly bool) {
	writers := make(map[int64]*Hold)
	var open, all []*Hold // those that may not have ended, and those with a place in the order
	peaks := []peak{{}}   // of so many of all
	var ended peak
	for _, h := range c.Holds {
		if h.Token == 0 {
			continue
		}
		if other := writers[h.Token]; !h.Shared && other != nil {
			c.violate(h, "%v from %v, and so had before %v", h, time.Duration(h.From), other)
		} else if !h.Shared {
			writers[h.Token] = h
		}
		if h.Late { // nobody knows when it was acquired
			continue
		}
		began := sort.Search(len(all), func(i int) bool { return all[i].From >= h.Since })
		before := peaks[began]
		if !tokensOnly {
			open = slices.DeleteFunc(open, func(o *Hold) bool {
				over := o.To <= h.From
				if over {
					ended = ended.with(o)
				}
				return over
			})
			before = before.join(ended)
		}
		if other := before.above(h); other != nil {
			c.violate(h, "%v from %v, after %v", h, time.Duration(h.From), other)
		}
		all, peaks = append(all, h), append(peaks, peaks[len(peaks)-1].with(h))
		if h.To != Held {
			open = append(open, h)
		}
	}
}

// join returns the larger ones of two peaks.
func (p peak) join(other peak) peak {
	for _, h := range []*Hold{other.writer, other.reader} {
		if h != nil {
			p = p.with(h)
		}
	}
	return p
}

// judgePermits finds more holders than permits, and holders who believe in different numbers.
func (c *Case) judgePermits() {
	var holding []*Hold
	for _, h := range c.Holds {
		if h.Late {
			continue
		}
		holding = slices.DeleteFunc(holding, func(other *Hold) bool { return other.To != Held && other.To <= h.From })
		for _, other := range holding {
			if other.Permits != h.Permits {
				c.violate(h, "%v, one of %d permits, while %v, one of %d", h, h.Permits, other, other.Permits)
			}
		}
		holding = append(holding, h)
		if len(holding) > h.Permits {
			c.violate(h, "%v, as holder %d of %d permits", h, len(holding), h.Permits)
		}
	}
}

// judgeMinHolds finds holds that begin within the minimum hold of an earlier one. Nothing is
// allowed for clocks that drift.
func (c *Case) judgeMinHolds() {
	var last *Hold // whose minimum hold ends last
	for _, h := range c.Holds {
		if last != nil && h.From < last.Kept {
			c.Early = append(c.Early, Violation{
				Name: c.Name, From: h.From, To: h.To,
				What: fmt.Sprintf("%v from %v, within the minimum hold of %s until %v", h, time.Duration(h.From), last.Who, time.Duration(last.Kept)),
			})
		}
		if h.Kept > 0 && (last == nil || h.Kept > last.Kept) {
			last = h
		}
	}
}
