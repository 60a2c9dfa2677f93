package dashboard

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/clock"
)

// ask asks for all but the list, at once: a master that is slow costs one answer and not several.
func (w *watch) ask(ctx context.Context, topics map[subject]bool, names, histories []string, now clock.Instant) (take func()) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var asked sync.WaitGroup
	var vitals []admin.Vitals
	var members survey.Members
	var told []survey.Inspection
	var log survey.Events
	var membersErr, namesErr, logErr error
	if topics[state] {
		asked.Go(func() { vitals = w.source.vitals(ctx) })
	}
	if topics[membership] {
		asked.Go(func() { members, membersErr = w.source.members(ctx) })
	}
	if topics[events] {
		asked.Go(func() { log, logErr = w.source.log(ctx) })
	}
	noted := w.histories(ctx, &asked, histories, now)
	known := w.latest().named
	if len(names) > 0 {
		asked.Go(func() {
			told, namesErr = w.source.inspect(ctx, names, func(name string) bool {
				e := known[name]
				return e == nil || e.Kind == survey.KindSemaphore || !e.IsThere()
			})
		})
	}
	asked.Wait()
	return func() {
		w.looking, w.ended = false, w.clock.Now()
		s := w.newer()
		for topic := range topics {
			s.told[topic] = now
		}
		if topics[state] {
			s.vitals = vitals
		}
		if topics[membership] {
			if s.membersErr = membersErr; membersErr == nil {
				s.members = members // of before, as long as too few tell
			}
		}
		if topics[events] && !w.isReleased(events, now) {
			s.events, s.eventsErr = log, logErr
		}
		w.note(s, histories, noted, now)
		if namesErr != nil {
			s.listErr = namesErr
		}
		if len(names) > 0 {
			w.owe(told, known)
			w.refresh(s, names, told, now)
		}
		w.publish(s)
	}
}

// histories asks for the histories of names, which are there when all was asked.
func (w *watch) histories(ctx context.Context, asked *sync.WaitGroup, names []string, now clock.Instant) []history {
	noted := make([]history, len(names))
	for i, name := range names {
		asked.Go(func() {
			events, err := w.source.history(ctx, name)
			noted[i] = history{events, err, now}
		})
	}
	return noted
}

// note takes the histories of names. Those that nobody asks for any more are forgotten.
func (w *watch) note(s *snapshot, names []string, noted []history, now clock.Instant) {
	s.histories = maps.Clone(s.histories)
	if s.histories == nil {
		s.histories = map[string]history{}
	}
	maps.DeleteFunc(s.histories, func(_ string, h history) bool { return now.Sub(h.seen) > fresh })
	for i, name := range names {
		if !w.isReleased(historyOf(name), now) {
			s.histories[name] = noted[i]
		}
	}
}

// weight is how many names more than one, in work, this is: a master runs three commands for each
// permit of a semaphore, and about ten for a name.
func weight(in *survey.Inspection) int { return permitCommands(in) / 10 }

// permitCommands is how many commands each master runs for the permits of a semaphore.
func permitCommands(in *survey.Inspection) int { return 3 * len(in.Permits) }

// list lists all locks. The next listing is so much later that the average is at the rate.
func (w *watch) list(ctx context.Context, now clock.Instant) (take func()) {
	began := w.source.stats()
	listing, err := w.source.list(ctx)
	ended, cost := w.source.stats(), uint64(0)
	for i := range min(len(began.Nodes), len(ended.Nodes)) {
		cost = max(cost, ended.Nodes[i].Calls-began.Nodes[i].Calls)
	}
	for i := range listing.Locks {
		cost += uint64(permitCommands(&listing.Locks[i]))
	}
	return func() {
		w.listing = false
		s := w.newer()
		s.told[locks], s.listing, s.listErr = now, listing, err
		s.listedAt = w.clock.Wall()
		s.listDue = now.Add(max(interval, time.Duration(cost)*time.Second/listingRate))
		s.listing.Locks, s.listing.Idle = nil, nil
		w.merge(s, slices.Concat(listing.Locks, listing.Idle), now)
		w.publish(s)
	}
}

// merge takes a listing that began at a moment. What was asked about by itself since then is newer.
func (w *watch) merge(s *snapshot, all []survey.Inspection, now clock.Instant) {
	before := s.named
	s.locks, s.named = nil, map[string]*entry{}
	for i := range all {
		if name := all[i].Name; !w.isReleased(lockOf(name), now) {
			s.named[name] = newEntry(&all[i], now)
		}
	}
	for name, e := range before { // a lock that is free is in no list, and somebody may look at it
		listed := s.named[name]
		if listed == nil && w.clock.Now().Sub(e.seen) <= fresh || e.seen > now {
			s.named[name] = e
		}
	}
	for _, e := range s.named {
		if e.IsThere() && (e.seen >= now) {
			s.locks = append(s.locks, e)
		}
	}
	slices.SortFunc(s.locks, func(a, b *entry) int { return survey.Natural(a.Name, b.Name) })
}

// refresh takes the answers about single names: those on the pages that are open.
func (w *watch) refresh(s *snapshot, names []string, told []survey.Inspection, now clock.Instant) {
	known := s.named
	s.named, s.locks = maps.Clone(known), slices.Clone(s.locks)
	if s.named == nil {
		s.named = map[string]*entry{}
	}
	for i := range told {
		if w.isReleased(lockOf(told[i].Name), now) {
			continue
		}
		e := newEntry(&told[i], now)
		s.named[e.Name] = e
		at, found := slices.BinarySearchFunc(s.locks, e, func(a, b *entry) int { return survey.Natural(a.Name, b.Name) })
		switch {
		case found && e.IsThere():
			s.locks[at] = e
		case found:
			s.locks = slices.Delete(s.locks, at, at+1)
		case e.IsThere():
			s.locks = slices.Insert(s.locks, at, e)
		}
	}
	for _, name := range names {
		if e := s.named[name]; (e == nil || e.seen < now) && !w.isReleased(lockOf(name), now) { // no lock can have such a name
			none := survey.Inspection{Name: name, Verdict: "free", Kind: survey.KindLock, NoLock: "No lock can have this name"}
			s.named[name] = newEntry(&none, now)
		}
	}
	// What nobody asks for any more, and is no lock, is forgotten; all of it if nobody looks at the
	// list.
	unlisted := s.listedAt.IsZero() || now > s.listDue.Add(fresh)
	if unlisted {
		s.locks, s.listedAt = nil, time.Time{}
	}
	maps.DeleteFunc(s.named, func(_ string, e *entry) bool {
		return now.Sub(e.seen) > fresh && (unlisted || !e.IsThere() && e.NewestTerm == 0)
	})
}
