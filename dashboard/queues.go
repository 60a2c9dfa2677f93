package dashboard

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/queue/backlog"
	"github.com/redquorum/redquorum/redlock"
)

// tasks is a queue, as the page uses it: a [queue.Queue].
type tasks interface {
	backlog.Queue
	Retry(ctx context.Context, ids ...string) (int, error)
	Drop(ctx context.Context, ids ...string) (int, error)
}

// shownQueue is a queue under the name that the page has for it.
type shownQueue struct {
	name  string
	tasks tasks
}

const (
	// mostShown is how many tasks that are due, and how many dead letters, the page of a queue has.
	mostShown = 50

	// mostFound is among how many dead letters one is looked for that somebody acts on: as many as
	// a queue tells.
	mostFound = 2000
)

// counted is of all queues how many tasks they have. What else is told of one has a topic for each:
// the page was given a few, so that they cost nobody the names of locks.
var counted = subject{topic: "queues"}

const ofOne = "queue "

func tasksOf(queue string) subject { return subject{topic: ofOne + queue} }

// isOfStores reports whether it is asked of the stores of queues, and not of the masters.
func (of subject) isOfStores() bool { return of == counted || strings.HasPrefix(of.topic, ofOne) }

// queueEntry is what is known of a queue.
type queueEntry struct {
	backlog.Status
	Err error // why its store did not answer
}

// oldest returns since when the first task is due; the zero time if none is.
func (e *queueEntry) oldest() time.Time {
	if len(e.Tasks) == 0 {
		return time.Time{}
	}
	return e.Tasks[0].Due
}

// count asks the stores for what is wanted of their queues, all at once.
func (w *watch) count(ctx context.Context, topics map[subject]bool, now clock.Instant) (take func()) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var asked sync.WaitGroup
	told := make([]*queueEntry, len(w.queues))
	for i, q := range w.queues {
		due, dead := 1, 0
		switch {
		case topics[tasksOf(q.name)]:
			due, dead = mostShown, mostShown
		case !topics[counted]:
			continue
		}
		told[i] = &queueEntry{}
		asked.Go(func() { told[i].Status, told[i].Err = backlog.Look(ctx, q.tasks, q.name, due, dead) })
	}
	asked.Wait()
	return func() {
		w.counting, w.ended = false, w.clock.Now()
		s := w.newer()
		s.queues = maps.Clone(s.queues)
		if s.queues == nil {
			s.queues = map[string]*queueEntry{}
		}
		for i, q := range w.queues {
			of := tasksOf(q.name)
			if told[i] == nil || w.isReleased(of, now) {
				continue
			}
			if before := s.queues[q.name]; before != nil && !topics[of] {
				told[i].Letters = before.Letters // the page of the queue may be open
			}
			s.queues[q.name] = told[i]
		}
		for topic := range topics {
			if !w.isReleased(topic, now) {
				s.told[topic] = now
			}
		}
		w.publish(s)
	}
}

// forgetQueue has a queue be asked for anew.
func (w *watch) forgetQueue(name string) {
	now := w.clock.Now()
	w.released[tasksOf(name)], w.released[counted] = now, now
	s := w.newer()
	delete(s.told, tasksOf(name))
	delete(s.told, counted)
	w.publish(s)
}

// queueRow is a queue in the list of them.
type queueRow struct {
	Link, Name, Oldest, Why     string
	Waiting, Due, Running, Dead string
}

func queueLink(name string) string { return "queue?" + url.Values{"name": {name}}.Encode() }

func newQueueRow(name string, e *queueEntry) queueRow {
	row := queueRow{Link: queueLink(name), Name: prose.Printable(name), Oldest: "-", Waiting: "-", Due: "-", Running: "-", Dead: "-"}
	switch {
	case e == nil:
		return row
	case e.Err != nil:
		row.Why = "The store does not answer: " + prose.Readable(e.Err.Error())
		return row
	}
	if at := e.oldest(); !at.IsZero() {
		row.Oldest = at.Format(time.DateTime)
	}
	row.Waiting, row.Due, row.Running, row.Dead = strconv.Itoa(e.Waiting), strconv.Itoa(e.Due), strconv.Itoa(e.Running), strconv.Itoa(e.Dead)
	return row
}

func (h *Handler) fillQueues(s *snapshot, _ url.Values, p *page) {
	var rows []queueRow
	for _, q := range h.settings.queues {
		rows = append(rows, newQueueRow(q.name, s.queues[q.name]))
	}
	p.Asked, p.Content = "stores", rows
}

// queueContent is one queue.
type queueContent struct {
	Row     queueRow
	Tasks   []backlog.Task
	Letters []letterRow
	More    [2]int // tasks that are due, and dead letters, beside these
}

// letterRow is a dead letter.
type letterRow struct {
	backlog.Letter
	Link string
}

func letterLink(queue, id string) string {
	return "letter?" + url.Values{"name": {queue}, "id": {id}}.Encode()
}

func (h *Handler) fillQueue(s *snapshot, q url.Values, p *page) {
	name := q.Get("name")
	e := s.queues[name]
	content := &queueContent{Row: newQueueRow(name, e)}
	p.Title, p.Asked, p.Content = content.Row.Name, "store", content
	if e == nil || e.Err != nil {
		return
	}
	content.Tasks = e.Tasks
	for _, l := range e.Letters {
		content.Letters = append(content.Letters, letterRow{l, letterLink(name, l.ID)})
	}
	content.More = [2]int{max(e.Due-len(e.Tasks), 0), max(e.Dead-len(e.Letters), 0)}
}

// letterContent is one dead letter.
type letterContent struct {
	*backlog.Letter        // nil: it is none, or is not among those that died last
	Queue           string // printable
	Back            string // the address of the queue
	Action          string // where the form goes; empty: there is no form
	Seen            string // which death it was
	Result          string
}

func (h *Handler) fillLetter(s *snapshot, q url.Values, p *page) {
	name, id := q.Get("name"), q.Get("id")
	content := &letterContent{Queue: prose.Printable(name), Back: queueLink(name), Result: settled[q.Get("done")]}
	p.Title, p.Asked, p.Content = prose.Printable(id), "store", content
	e := s.queues[name]
	if e == nil {
		return
	}
	at := slices.IndexFunc(e.Letters, func(l backlog.Letter) bool { return l.ID == id })
	if at < 0 {
		return
	}
	content.Letter = &e.Letters[at]
	content.Seen = seenOf(content.Died)
	if p.Force {
		content.Action = "settle?" + url.Values{"name": {name}, "id": {id}}.Encode()
	}
}

// seenOf names a death, as the JSON tells it: a letter of the same id that has another one is
// another letter.
func seenOf(died time.Time) string { return died.UTC().Format(time.RFC3339Nano) }

// settled is what the page says after a letter was settled.
var settled = map[string]string{
	"retry": "It is back in the queue, due at once, with all attempts before it.",
	"drop":  "It is dropped.",
}

var (
	errNoQueue  = errors.New("this page shows no queue of that name")
	errNoLetter = fmt.Errorf("it is no dead letter now, or not among the %d that died last: somebody has settled it, or it is older, "+
		"and redlock queue settles it (retry, or remove --dead)", mostFound)
	errDied  = errors.New("it was put back since, and has died again: look at it anew")
	errThere = errors.New("its id is in the queue again: it stays as it is")
)

// settleForm puts a dead letter back, or drops it, as the form says. The rules are those of a
// forced release.
func (h *Handler) settleForm(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, mostBody)
	name, id, what := r.URL.Query().Get("name"), r.URL.Query().Get("id"), r.PostFormValue("do")
	if typed := r.PostFormValue("confirm"); typed != prose.Printable(id) {
		h.fail(w, r, http.StatusBadRequest, fmt.Sprintf("Nothing was changed: %q was typed, and the letter is %q.", prose.Printable(typed), prose.Printable(id)))
		return
	}
	if status, err := h.settle(r, name, id, what); err != nil {
		h.fail(w, r, status, "Nothing was changed: "+prose.Readable(err.Error())+".")
		return
	}
	w.Header().Set("Location", letterLink(name, id)+"&done="+what)
	w.WriteHeader(http.StatusSeeOther)
}

// settle retries or drops the letter that was seen. Between the look here and the change, which
// waits for the lock of the queue, the letter may have been retried and have died again: then the
// newer one is settled, which has the same task.
func (h *Handler) settle(r *http.Request, name, id, what string) (status int, err error) {
	q := h.queue(name)
	seen := r.PostFormValue("seen")
	switch {
	case q == nil:
		return http.StatusNotFound, errNoQueue
	case settled[what] == "":
		return http.StatusBadRequest, errBadRequest
	case seen == "":
		return http.StatusBadRequest, errors.New("say which death was seen: give the letter's died as seen")
	}
	undone := h.watch.do(r.Context(), func(ctx context.Context) { err = settleIn(ctx, q, id, what, seen) }, func() { h.watch.forgetQueue(name) })
	switch err = errors.Join(err, undone); {
	case err == nil:
		return http.StatusOK, nil
	case errors.Is(err, errNoLetter), errors.Is(err, errDied), errors.Is(err, errThere):
		return http.StatusConflict, err
	default: // the store, the masters, or others that keep the queue locked
		return http.StatusServiceUnavailable, err
	}
}

func settleIn(ctx context.Context, q tasks, id, what, seen string) error {
	letters, err := q.Dead(ctx, mostFound)
	if err != nil {
		return err
	}
	for i := range letters {
		if letters[i].ID != id {
			continue
		}
		if seenOf(letters[i].Died) != seen {
			return errDied
		}
		change, none := q.Drop, errNoLetter
		if what == "retry" {
			change, none = q.Retry, errThere
		}
		n, err := change(ctx, id)
		if err == nil && n == 0 {
			err = none
		}
		return err
	}
	return errNoLetter
}

// queue returns the queue of that name; nil if the page has none.
func (h *Handler) queue(name string) tasks {
	for _, q := range h.settings.queues {
		if q.name == name {
			return q.tasks
		}
	}
	return nil
}

func checkQueues(all []shownQueue) error {
	for i, q := range all {
		if q.tasks == nil || q.name == "" || slices.ContainsFunc(all[:i], func(other shownQueue) bool { return other.name == q.name }) {
			return fmt.Errorf("%w: WithQueue(%q): each queue has a name of its own, and is not nil", redlock.ErrInvalid, q.name)
		}
	}
	return nil
}
