package leasehttp

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/redquorum/redquorum/cmd/redlock/internal/lease"
	"github.com/redquorum/redquorum/internal/guard"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/redlock"
)

// holding says who holds a lock, and since when; null where the lock does not tell, as those of
// other libraries.
type holding struct {
	Holder string     `json:"holder"`
	Since  *time.Time `json:"since"`
	Held   *int64     `json:"held_ms"`
}

func holdingOf(h *lease.Holder) holding {
	told := holding{Holder: prose.Printable(cmp.Or(h.Owner, h.From))}
	if !h.Since.IsZero() {
		since, held := h.Since.UTC(), max(h.Held.Milliseconds(), 0)
		told.Since, told.Held = &since, &held
	}
	return told
}

// taken is the refusal of a lease that somebody else has.
type taken struct {
	Error string `json:"error"`
	holding
}

// undecided is the refusal where too few masters have answered.
type undecided struct {
	Error   string   `json:"error"`
	Masters []master `json:"masters"`
	Why     string   `json:"why"`
}

// master is one that has failed, and why.
type master struct {
	Endpoint string `json:"endpoint"`
	Error    string `json:"error"`
}

// lost is the answer to those who have their lease no more, or never had it.
type lost struct {
	Error string `json:"error"`
	Why   string `json:"why,omitempty"`
	Valid *int64 `json:"valid_ms,omitempty"` // of a stream: how long the lease lasts all the same
}

// refuse answers with why there is no lease.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	var holds *lease.TakenError
	switch {
	case errors.Is(err, redlock.ErrInvalid):
		guard.Error(w, http.StatusBadRequest, err)
	case errors.Is(err, redlock.ErrLost):
		guard.WriteJSON(w, http.StatusGone, lost{Error: "lost"})
	case errors.As(err, &holds):
		guard.WriteJSON(w, http.StatusConflict, taken{"taken", holdingOf(&holds.Holder)})
	case errors.Is(err, redlock.ErrTaken):
		guard.WriteJSON(w, http.StatusConflict, taken{Error: "taken"})
	case errors.Is(err, redlock.ErrClosed), errors.Is(context.Cause(r.Context()), ErrEnding):
		w.Header().Set("Retry-After", "1")
		guard.Error(w, http.StatusServiceUnavailable, ErrEnding)
	default: // also a lease that was granted too late, and given back
		guard.WriteJSON(w, http.StatusServiceUnavailable, undecided{"no quorum", mastersIn(err), prose.Readable(err.Error())})
	}
}

// mastersIn returns the masters of which an error tells.
func mastersIn(err error) []master {
	all := []master{}
	var votes *redlock.QuorumError
	if errors.As(err, &votes) {
		for _, n := range votes.Nodes {
			all = append(all, master{n.Endpoint, prose.Readable(n.Err.Error())})
		}
	}
	return all
}
