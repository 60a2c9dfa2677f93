package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/internal/guard"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/redlock"
)

const (
	// longestReason is enough for a sentence, in bytes. The log cuts long ones.
	longestReason = 500

	// mostBody is enough for a name and a reason, percent-encoded.
	mostBody = 3*(longestName+longestReason) + 1024
)

// forceForm takes a lock away from its holder, as the form says. Its name is in the address,
// because a form cannot have each; what was typed is the name as the page shows it.
func (h *Handler) forceForm(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, mostBody)
	name := r.URL.Query().Get("name")
	typed := r.PostFormValue("confirm")
	if typed != prose.Printable(name) {
		h.fail(w, r, http.StatusBadRequest, fmt.Sprintf("Nothing was released: %q was typed, and the lock is %q.", prose.Printable(typed), prose.Printable(name)))
		return
	}
	released, status, err := h.force(r, name)
	if err != nil {
		h.fail(w, r, status, "Nothing was released: "+prose.Readable(err.Error()))
		return
	}
	// A page that is loaded again must not release once more. What is passed on in the address is
	// two facts, in forms that can say nothing else.
	q := url.Values{"name": {name}, "known": {released.KnownBy}}
	if released.Unlogged != nil {
		q.Set("unlogged", "1")
	}
	w.Header().Set("Location", "lock?"+q.Encode())
	w.WriteHeader(http.StatusSeeOther)
}

// apiUnlock is the same for programs: the name in the address, and the rest in the body. If the
// lock has changed, the answer has the inspection of it as it is.
func (h *Handler) apiUnlock(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, mostBody)
	released, status, err := h.force(r, r.URL.Query().Get("name"))
	var changed *survey.ChangedError
	switch {
	case errors.As(err, &changed):
		guard.WriteJSON(w, status, struct {
			Error string            `json:"error"`
			Now   survey.Inspection `json:"now"`
		}{prose.Readable(err.Error()), changed.Now})
		return
	case err != nil:
		guard.Error(w, status, err)
		return
	}
	guard.WriteJSON(w, http.StatusOK, released)
}

// force takes away what was seen of a lock, and named by its digest: whoever has got it since keeps
// it. The log tells who did.
func (h *Handler) force(r *http.Request, name string) (released survey.Release, status int, err error) {
	digest, reason := r.PostFormValue("digest"), strings.TrimSpace(r.PostFormValue("reason"))
	switch {
	case name == "" || len(name) > longestName:
		return released, http.StatusBadRequest, fmt.Errorf("%w: the name of a lock has 1 to %d bytes", errBadRequest, longestName)
	case reason == "" || len(reason) > longestReason:
		return released, http.StatusBadRequest, fmt.Errorf("give a reason, of at most %d bytes: the log shows it to those who wonder", longestReason)
	case digest == "":
		return released, http.StatusBadRequest, errors.New("give the digest that the inspection of the lock has: nothing but what was seen is released")
	}
	reason += fmt.Sprintf(" (%s, by redlock serve)", cmp.Or(guard.User(r), "somebody"))
	if undone := h.watch.do(r.Context(), func(ctx context.Context) {
		released, err = h.watch.source.force(ctx, name, digest, reason)
	}, func() { h.watch.forget(name) }); undone != nil {
		err = undone
	}
	switch {
	case err == nil:
		return released, http.StatusOK, nil
	case errors.Is(err, redlock.ErrNoQuorum):
		return released, http.StatusServiceUnavailable, err
	default:
		return released, http.StatusConflict, err
	}
}

// resultIn says what a release did, if an address tells of one.
func resultIn(q url.Values) (says []string) {
	if !q.Has("known") {
		return nil
	}
	says = []string{"It is released: nobody holds it any more, or the next one does."}
	if _, err := time.Parse(time.RFC3339, q.Get("known")); err == nil {
		says = append(says, "Whoever held it, if still at work, knows by "+q.Get("known")+", and may go on until then.")
	}
	if q.Has("unlogged") {
		says = append(says, "The log does not tell of it.")
	}
	return says
}
