package driver_test

import (
	"slices"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/journal"
	"github.com/redquorum/redquorum/redlock"
)

// noted compares the history of each name with what became of its locks. Nobody promises that a
// note arrived, but where all masters are well, and none was dropped, a run has its end.
func (r *run) noted() {
	ended := map[string]*handle{} // by the ID of the entry
	names := map[string]bool{}
	r.mu.Lock()
	for _, h := range r.handles {
		ended[journal.RunID(h.hold.Value)] = h
		names[h.hold.Names[0]] = true
	}
	r.mu.Unlock()
	for name := range names {
		entries, err := admin.Of(r.clients[0].current().locker).History(r.base, name)
		if err != nil {
			continue // it is Log that promises
		}
		seen := map[string]bool{}
		for _, e := range entries {
			r.promise("a run is one entry of the history", !seen[e.ID], "%q has %s twice: %+v", name, e.ID, entries)
			seen[e.ID] = true
			h, ours := ended[e.ID]
			if e.Kind == admin.KindForced || e.Began.IsZero() || !ours {
				continue
			}
			why, wants := h.lock.Err(), []string{admin.KindBegan}
			if why != nil && r.plan.calm() && h.life.locker.Stats().HistoryDropped == 0 {
				wants = nil
			}
			switch {
			case is(why, redlock.ErrReleased):
				wants = append(wants, admin.KindRan)
			case is(why, redlock.ErrLost):
				wants = append(wants, admin.KindLost, admin.KindCut)
			}
			r.promise("the history tells how locks ended", slices.Contains(wants, e.Kind) && !e.Began.After(e.Time), "%q ended by %v, and the history has: %+v", name, why, e)
		}
	}
}

// refuses has a call refused that the history tells of when somebody else has the name. That one
// was not in its way.
func (r *run) refuses() {
	name, holder, asker := r.fresh(), r.clients[0].current().locker, r.newClient(&r.plan.clients[0]).current()
	lock, err := holder.TryLock(r.base, name)
	for range 2 { // the first is noted at once
		if refused, err := asker.locker.TryLock(r.base, name, redlock.WithHistory()); err == nil {
			_ = refused.Unlock(r.base) //nolint:errcheck // the name is not used again
		}
	}
	if err == nil {
		_ = lock.Unlock(r.base) //nolint:errcheck // then nobody else has it
	}
	time.Sleep(time.Second) // since when the next one has it is told in seconds
	lock, err = holder.TryLock(r.base, name)
	asker.close()
	entries, failed := admin.Of(holder).History(r.base, name)
	for _, e := range entries {
		r.promise("the history tells who had it instead", failed != nil || e.Holder == "" || !e.Since.After(e.Time), "%q: %+v", name, e)
	}
	if err == nil {
		_ = lock.Unlock(r.base) //nolint:errcheck // the name is not used again
	}
}
