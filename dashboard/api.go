package dashboard

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/internal/guard"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// status is that of an answer with an error of the masters.
func statusOf(err error) int {
	if err != nil {
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

const (
	// mostReading is how many clients read a list, or an answer of largeAnswer bytes, at a time:
	// each may take its time, and what it reads stays in memory until then.
	mostReading = 4
	largeAnswer = 256 << 10
)

// errReading says that others have to read theirs first.
var errReading = errors.New("too many others are reading large answers; try again in some seconds")

// read writes a large answer unless too many are being read.
func (h *Handler) read(w http.ResponseWriter, write func()) {
	select {
	case h.reading <- struct{}{}:
		defer func() { <-h.reading }()
		write()
	default:
		w.Header().Set("Retry-After", "3")
		guard.Error(w, http.StatusServiceUnavailable, errReading)
	}
}

// writeList writes a list as the command does, but one lock at a time: there may be megabytes.
func writeList(w http.ResponseWriter, status int, list *survey.Listing, locks []*entry) {
	const none = `"locks": []`
	whole := *list
	whole.Locks = []survey.Inspection{}
	var rest bytes.Buffer
	if err := prose.WriteJSON(&rest, whole); err != nil || len(locks) == 0 {
		guard.WriteJSON(w, status, whole)
		return
	}
	before, after, _ := strings.Cut(rest.String(), none) // nothing that is before it has such a text
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	out := bufio.NewWriter(w)
	text := before + `"locks": [`
	for i, e := range locks {
		one, err := json.MarshalIndent(e.Inspection, "    ", "  ")
		if err != nil {
			return // ours always encode
		}
		if i > 0 {
			text = ","
		}
		if _, err = fmt.Fprintf(out, "%s\n    %s", text, prose.GraphicJSON(one)); err != nil {
			return // the client is gone
		}
	}
	_, _ = fmt.Fprintf(out, "\n  ]%s", after) //nolint:errcheck // see above
	_ = out.Flush()                           //nolint:errcheck // see above
}

// apiList is `redlock list --json`.
func (h *Handler) apiList(w http.ResponseWriter, r *http.Request) {
	s, err := h.watch.get(r.Context(), locks)
	if err != nil || s.listedAt.IsZero() {
		guard.Error(w, http.StatusServiceUnavailable, survey.ErrTooFew)
		return
	}
	h.read(w, func() { writeList(w, statusOf(s.listing.Failure()), &s.listing, s.locks) })
}

// apiInspect is `redlock inspect --json`.
func (h *Handler) apiInspect(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	shown, err := h.subjects(views["lock"], r.URL.Query())
	if err != nil {
		guard.Error(w, http.StatusBadRequest, err)
		return
	}
	s, err := h.watch.get(r.Context(), shown...)
	switch e := s.named[name]; {
	case err != nil:
		guard.Error(w, http.StatusServiceUnavailable, err)
	case e == nil:
		guard.Error(w, http.StatusServiceUnavailable, survey.ErrTooFew)
	default:
		in, status := *e.Inspection, http.StatusOK
		in.AddHistory(s.histories[name].Events)
		if e.Verdict == "unknown" {
			status = http.StatusServiceUnavailable
		}
		h.writeInspection(w, status, &in)
	}
}

// writeInspection writes what is known of a lock, which may have thousands of readers or permits.
func (h *Handler) writeInspection(w http.ResponseWriter, status int, in *survey.Inspection) {
	write := func() { guard.WriteJSON(w, status, in) }
	if (len(in.Readers)+len(in.Permits))*256 < largeAnswer {
		write()
		return
	}
	h.read(w, write)
}

// apiMembers is `redlock members --json`.
func (h *Handler) apiMembers(w http.ResponseWriter, r *http.Request) {
	s, _ := h.watch.get(r.Context(), membership) //nolint:errcheck // only names have errors
	if err := s.membersErr; err != nil || s.due(membership) == 0 {
		guard.Error(w, http.StatusServiceUnavailable, orTooFew(err))
		return
	}
	guard.WriteJSON(w, http.StatusOK, s.members)
}

// apiLog is `redlock log --json`, with all entries; with a name, `redlock log NAME --json`.
func (h *Handler) apiLog(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Has("name") {
		h.apiHistory(w, r)
		return
	}
	s, _ := h.watch.get(r.Context(), events) //nolint:errcheck // only names have errors
	if s.due(events) == 0 {
		guard.Error(w, http.StatusServiceUnavailable, survey.ErrTooFew)
		return
	}
	guard.WriteJSON(w, statusOf(s.eventsErr), s.events)
}

// apiQueues has the counts of all queues, and the oldest task that is due in each.
func (h *Handler) apiQueues(w http.ResponseWriter, r *http.Request) {
	s, _ := h.watch.get(r.Context(), counted) //nolint:errcheck // only names have errors
	type told struct {
		Queue   string     `json:"queue"`
		Waiting int        `json:"waiting"`
		Due     int        `json:"due"`
		Running int        `json:"running"`
		Dead    int        `json:"dead"`
		Oldest  *time.Time `json:"oldest_due,omitempty"`
		Error   string     `json:"error,omitempty"`
	}
	all, status := []told{}, http.StatusOK
	for _, q := range h.settings.queues {
		e := s.queues[q.name]
		if e == nil {
			e = &queueEntry{Err: errNoAnswer}
		}
		one := told{Queue: q.name, Waiting: e.Waiting, Due: e.Due, Running: e.Running, Dead: e.Dead}
		if at := e.oldest(); !at.IsZero() {
			one.Oldest = &at
		}
		if e.Err != nil {
			one.Error, status = prose.Readable(e.Err.Error()), http.StatusServiceUnavailable
		}
		all = append(all, one)
	}
	guard.WriteJSON(w, status, map[string]any{"queues": all})
}

// apiQueue is `redlock queue list --json`.
func (h *Handler) apiQueue(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	shown, err := h.subjects(views["queue"], r.URL.Query())
	if err != nil {
		guard.Error(w, refusal(err), err)
		return
	}
	s, _ := h.watch.get(r.Context(), shown...) //nolint:errcheck // only names have errors
	switch e := s.queues[name]; {
	case e == nil:
		guard.Error(w, http.StatusServiceUnavailable, errNoAnswer)
	case e.Err != nil:
		guard.Error(w, http.StatusServiceUnavailable, e.Err)
	default:
		h.read(w, func() { guard.WriteJSON(w, http.StatusOK, e.Status) }) // a payload may have 64 KiB
	}
}

var errNoAnswer = errors.New("the store has not answered yet")

// apiSettle puts a dead letter back, or drops it: the name and the id in the address, and in the
// body which death was seen.
func (h *Handler) apiSettle(what string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		q := r.URL.Query()
		if status, err := h.settle(r, q.Get("name"), q.Get("id"), what); err != nil {
			guard.Error(w, status, err)
			return
		}
		guard.WriteJSON(w, http.StatusOK, map[string]string{"queue": q.Get("name"), "id": q.Get("id"), "done": what})
	}
}

func (h *Handler) apiHistory(w http.ResponseWriter, r *http.Request) {
	shown, err := h.subjects(views["lock"], r.URL.Query())
	if err != nil {
		guard.Error(w, http.StatusBadRequest, err)
		return
	}
	name := r.URL.Query().Get("name")
	s, err := h.watch.get(r.Context(), shown[1:]...)
	switch told, is := s.histories[name]; {
	case err != nil:
		guard.Error(w, http.StatusServiceUnavailable, err)
	case !is:
		guard.Error(w, http.StatusServiceUnavailable, survey.ErrTooFew)
	default:
		guard.WriteJSON(w, statusOf(told.err), told.Events)
	}
}

func orTooFew(err error) error {
	if err == nil {
		return survey.ErrTooFew
	}
	return err
}

// metrics answers in the text format of Prometheus. Figures of masters have the names that
// contrib/prometheus gives them.
func (h *Handler) metrics(w http.ResponseWriter, r *http.Request) {
	s, _ := h.watch.get(r.Context(), h.measured()...) //nolint:errcheck // only names have errors
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	var b strings.Builder
	gauge := func(name, help string) {
		fmt.Fprintf(&b, "# HELP redquorum_%s %s\n# TYPE redquorum_%[1]s gauge\n", name, help)
	}
	one := func(name, help string, value float64) {
		gauge(name, help)
		fmt.Fprintf(&b, "redquorum_%s %g\n", name, value)
	}
	one("quorum_nodes", "Nodes that make a quorum.", float64(s.stats.Quorum))
	one("cluster_members", "Masters of which a majority is a quorum.", float64(s.stats.Members))
	one("cluster_version", "Version of the list of members; 0 while none is known.", float64(s.stats.Version))
	for _, m := range nodeMetrics {
		gauge(m.name, m.help)
		for i := range min(len(s.stats.Nodes), len(s.vitals)) {
			if admin.HasLeft(&s.stats.Nodes[i]) {
				continue
			}
			if value, known := m.value(&s.stats.Nodes[i], &s.vitals[i]); known {
				fmt.Fprintf(&b, "redquorum_%s{node=%s} %g\n", m.name, label(s.stats.Nodes[i].Endpoint), value)
			}
		}
	}
	gauge("node_info", "The server that answers, or answered last.")
	for _, n := range s.stats.Nodes {
		if admin.HasLeft(&n) {
			continue
		}
		fmt.Fprintf(&b, "redquorum_node_info{node=%s,product=%s,version=%s} 1\n", label(n.Endpoint), label(n.Product), label(n.Version))
	}
	if !s.listedAt.IsZero() {
		states, waiting, oldest := s.counts()
		gauge("serve_locks", "Locks on the masters, by their state.")
		for _, state := range lockStates {
			fmt.Fprintf(&b, "redquorum_serve_locks{state=%q} %d\n", state, states[state])
		}
		one("serve_waiters", "Processes that wait, at each master for which they do.", float64(waiting))
		one("serve_oldest_hold_seconds", "For how long the oldest lock on the masters has been held, elections left out.", oldest.Seconds())
		one("serve_listing_complete", "Whether no lock that is held is missing from these figures.", truth(s.listing.Complete))
		one("serve_listing_age_seconds", "Age of the figures about locks.", s.at.Sub(s.listedAt).Seconds())
	}
	h.queueMetrics(&b, gauge, s)
	_, _ = io.WriteString(w, b.String()) //nolint:errcheck // the client is gone
}

// measured is what the metrics tell.
func (h *Handler) measured() []subject {
	if len(h.settings.queues) == 0 {
		return []subject{locks}
	}
	return []subject{locks, counted}
}

// queueMetrics tells of the queues whose stores answer.
func (h *Handler) queueMetrics(b *strings.Builder, gauge func(name, help string), s *snapshot) {
	if len(h.settings.queues) == 0 {
		return
	}
	each := func(write func(queue string, e *queueEntry)) {
		for _, q := range h.settings.queues {
			if e := s.queues[q.name]; e != nil {
				write(label(q.name), e)
			}
		}
	}
	gauge("serve_queue_up", "Whether the store of the queue answers.")
	each(func(queue string, e *queueEntry) {
		fmt.Fprintf(b, "redquorum_serve_queue_up{queue=%s} %g\n", queue, truth(e.Err == nil))
	})
	gauge("serve_queue_tasks", "Tasks and dead letters of the queue, by their state.")
	each(func(queue string, e *queueEntry) {
		if e.Err != nil {
			return
		}
		for _, of := range []struct {
			state string
			n     int
		}{{"waiting", e.Waiting}, {"due", e.Due}, {"running", e.Running}, {"dead", e.Dead}} {
			fmt.Fprintf(b, "redquorum_serve_queue_tasks{queue=%s,state=%q} %d\n", queue, of.state, of.n)
		}
	})
	gauge("serve_queue_oldest_due_seconds", "For how long the oldest task has been due, by the clock of this process.")
	each(func(queue string, e *queueEntry) {
		age := time.Duration(0)
		if at := e.oldest(); !at.IsZero() {
			age = max(s.at.Sub(at), 0)
		}
		if e.Err == nil {
			fmt.Fprintf(b, "redquorum_serve_queue_oldest_due_seconds{queue=%s} %g\n", queue, age.Seconds())
		}
	})
}

var escaped = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// label quotes the value of a label.
func label(value string) string { return `"` + escaped.Replace(strings.ToValidUTF8(value, "?")) + `"` }

// nodeMetrics are the figures of one master.
var nodeMetrics = []struct {
	name, help string
	value      func(n *redlock.NodeStats, v *admin.Vitals) (value float64, known bool)
}{
	{"node_up", "Whether the node takes calls.", func(n *redlock.NodeStats, _ *admin.Vitals) (float64, bool) { return truth(n.State == pool.Up), true }},
	{"node_votes", "Whether the node is up and its vote counts.", func(n *redlock.NodeStats, _ *admin.Vitals) (float64, bool) { return truth(admin.Votes(n)), true }},
	{"node_quarantine_remaining_seconds", "How long the node will not vote, as far as is known.", func(n *redlock.NodeStats, _ *admin.Vitals) (float64, bool) {
		return n.QuarantinedFor.Seconds(), true
	}},
	{"serve_ping_seconds", "Round trip of a PING.", func(_ *redlock.NodeStats, v *admin.Vitals) (float64, bool) {
		return v.RoundTrip.Seconds(), v.Err == nil
	}},
	{"serve_clock_ahead_seconds", "How far the clock of the node is ahead of this process's.", func(_ *redlock.NodeStats, v *admin.Vitals) (float64, bool) {
		return v.Clock.Seconds(), v.HasClock
	}},
	{"serve_memory_bytes", "Memory that the node uses.", func(_ *redlock.NodeStats, v *admin.Vitals) (float64, bool) {
		return float64(v.Memory), v.Err == nil && v.Memory >= 0
	}},
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
