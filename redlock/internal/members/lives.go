package members

import (
	"context"

	"github.com/redquorum/redquorum/redlock/internal/members/core"
	"github.com/redquorum/redquorum/redlock/internal/members/record"
)

// nextLifeLocked returns the place of a member that begins another life.
func (ms *Membership) nextLifeLocked(roster *record.Roster, id string) record.Place {
	return record.Place{Cluster: roster.Cluster, Member: id, Life: ms.lives[record.Seat{Cluster: roster.Cluster, Member: id}].Number + 1}
}

func (ms *Membership) isDoubted(r *core.Report) bool {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return ms.lives.Doubt(r.Marker, r.Place)
}

// show shows a member that counts the latest lives of the others.
func (ms *Membership) show(ctx context.Context, r *core.Report, roster *record.Roster) {
	ms.mu.Lock()
	p := r.Place
	p.Lives = ms.lives.Of(roster, p.Member)
	ms.mu.Unlock()
	if p.Lives != r.Place.Lives {
		ms.apply(ctx, []core.Change{{Of: *r, Marker: r.Marker.At(p)}}, nil)
	}
}
