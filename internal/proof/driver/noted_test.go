package driver_test

import (
	"slices"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/journal"
	"github.com/redquorum/redquorum/redlock"
)

// noted compares the history of each name with what became of its locks. Nobody promises that a
// note arrived.
func (r *run) noted() {
	ended := map[string]error{} // why, by the ID of the entry
	names := map[string]bool{}
	r.mu.Lock()
	for _, h := range r.handles {
		ended[journal.RunID(h.hold.Value)] = h.lock.Err()
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
			why, ours := ended[e.ID]
			if e.Kind == admin.KindForced || e.Began.IsZero() || !ours {
				continue
			}
			wants := []string{admin.KindBegan}
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
