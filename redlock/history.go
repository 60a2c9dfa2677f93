package redlock

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/journal"
	"github.com/redquorum/redquorum/internal/owner"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock/internal/quorum"
	"github.com/redquorum/redquorum/redlock/internal/round"
	"github.com/redquorum/redquorum/redlock/internal/wire"
)

// WithHistory notes at the masters what becomes of a name: who had the lock, from when to when, and
// who lost it and why; and which calls did not get it, who had it instead, or which masters did not
// answer. `redlock log NAME` and History of package admin tell it afterwards: "job X did not run
// last night: why?" It is for names of which there are few, such as those of jobs. The masters keep
// the newest 64 runs and 64 refusals of each of 256 names of a key prefix, for 30 days.
//
// No lock waits for a note, and no lock depends on one. A note is written in the background, within
// a second of what it tells, or by Close; a Locker writes some 64 a second, and what is beyond that
// waits. A lock that ends before its beginning was noted has one note in all. Of the calls that do
// not get a name, a Locker notes the first at once, and then the last of each minute, with their
// number. Notes are lost if a process dies; and dropped, and counted ([Stats.HistoryDropped]), when
// more than 8 runs of a name wait, or notes of more than 1,024 names within a minute, or more than
// 72 at Close, or too few masters take them. A name of more than 1,024 bytes, its prefix counted,
// has no history, nor one that ends with "#missed" or "#names".
func WithHistory() LockOption {
	return lockOption(func(c *lockConfig) error {
		c.history = true
		return nil
	})
}

const (
	historyPause = time.Second // between two times at which notes are sent
	missesPause  = time.Minute // between two notes about misses of a name
	mostSent     = 64          // notes a second; masters have other things to do
	mostPending  = 1024        // names that have notes to be sent, or misses a short while ago
	mostRuns     = 8           // notes about runs of a name to be sent; the newest
)

// history sends notes about names to the masters, in the background (package journal).
type history struct {
	locker *Locker

	mu      sync.Mutex // guards the fields below; never held over a call to a node
	ended   bool
	due     bool         // send is called soon
	next    *clock.Timer // which does; or the last one that did
	names   map[string]*noted
	sent    []*round.Round // that were not decided when last seen
	since   clock.Instant  // when the second began in which recent notes were sent
	recent  int
	dropped uint64
}

// noted is what is to be sent about a key, and when it was last told of a miss.
type noted struct {
	runs   []journal.Entry
	misses journal.Entry // of Times calls; the last of them
	told   clock.Instant
	ever   bool // told is set
}

// note adds an entry about a key.
func (h *history) note(key string, e journal.Entry) {
	l := h.locker
	e.Key, e.By = key, l.config.noter()
	e.Stamp(l.clock.Wall())
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.names[key]
	switch {
	case !wire.HasHistory(key): // which is told of the option
		return
	case h.ended || n == nil && len(h.names) >= mostPending:
		h.dropped++
		return
	case n == nil:
		n = &noted{}
		if h.names == nil {
			h.names = map[string]*noted{}
		}
		h.names[key] = n
	}
	if e.Run() {
		h.addRunLocked(n, e)
		h.planLocked(historyPause)
		return
	}
	if e.Times = n.misses.Times + 1; n.misses.Times > 0 {
		e.BeganMillis = min(n.misses.BeganMillis, e.BeganMillis)
	}
	n.misses = e
	if n.ever {
		h.planLocked(historyPause)
	} else {
		h.planLocked(0) // the masters may still tell who has it
	}
}

// addRunLocked adds what is known of a run. Its end takes the place of its beginning.
func (h *history) addRunLocked(n *noted, e journal.Entry) {
	n.runs = slices.DeleteFunc(n.runs, func(before journal.Entry) bool { return before.ID == e.ID })
	if len(n.runs) == mostRuns {
		n.runs = slices.Delete(n.runs, 0, 1)
		h.dropped++
	}
	n.runs = append(n.runs, e)
}

// planLocked has send be called after a while, if it is not to be called already; or at once, in
// place of that.
func (h *history) planLocked(d time.Duration) {
	if h.ended || h.due && d > 0 {
		return
	}
	if h.due = true; h.next != nil {
		h.next.Stop()
	}
	h.next = h.locker.clock.AfterFunc(d, func() {
		// The Locker waits for this, unless it has ended, and then all was sent.
		if l := h.locker; l.life.enter() {
			h.send(false)
			l.life.leave()
		}
	})
}

// send sends what is due; the last time, all. While no master answers, it keeps everything.
func (h *history) send(last bool) {
	l := h.locker
	now := l.clock.Now()
	up := slices.ContainsFunc(l.nodes(), func(n *pipeline.Node) bool { return n.State() == pool.Up })
	var sent []*round.Round
	for _, e := range h.take(now, up, last) {
		sent = append(sent, l.sendNote(&e, now))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent = append(h.sent, sent...)
}

// take takes the entries that are to be sent now.
func (h *history) take(now clock.Instant, up, last bool) (entries []journal.Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.due = false
	if now.Sub(h.since) >= historyPause {
		h.since, h.recent = now, 0
	}
	h.countLocked()
	for key, n := range h.names {
		if !last && (!up || len(entries)+max(len(h.sent), h.recent) >= mostSent) {
			break
		}
		entries = append(entries, n.runs...)
		n.runs = nil
		quiet := n.ever && now.Sub(n.told) < missesPause
		if n.misses.Times > 0 && (last || !quiet) {
			if n.misses.Times == 1 {
				n.misses.Times = 0
			}
			entries = append(entries, n.misses)
			n.misses, n.told, n.ever = journal.Entry{}, now, true
		} else if !quiet {
			delete(h.names, key)
		}
	}
	if most := mostSent + mostRuns; len(entries) > most { // the last time, of very many
		h.dropped += uint64(len(entries) - most)
		entries = entries[:most]
	}
	h.recent += len(entries)
	if !last && len(h.names) > 0 {
		h.planLocked(historyPause)
	}
	h.ended = h.ended || last
	return entries
}

// countLocked counts the notes that no quorum has taken, and forgets those that are answered.
func (h *history) countLocked() {
	h.sent = slices.DeleteFunc(h.sent, func(r *round.Round) bool {
		v := r.Verdict()
		if v == quorum.NoQuorum || v == quorum.Denied {
			h.dropped++
		}
		return v != quorum.Pending
	})
}

// sendNote sends an entry, and waits for no node.
func (l *Locker) sendNote(e *journal.Entry, now clock.Instant) *round.Round {
	r := l.rounds.New(&round.Spec{Request: wire.LogOf(e, l.config.keyPrefix), Meaning: wire.Yes, Rule: quorum.DecideHeld, Background: true})
	r.Send(now.Add(min(l.config.timeout(l.config.lock.ttl), historyPause)), 0)
	return r
}

// Dropped returns how many notes were dropped.
func (h *history) Dropped() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.countLocked()
	return h.dropped
}

// noter is who the history says it is by.
func (c *config) noter() string {
	if c.lock.owner != "" {
		return c.lock.owner
	}
	return owner.Process()
}

// notedKeys returns the keys under which the history has a lock. Those of permits are together.
func (lock *Lock) notedKeys() []string {
	if p, is := lock.kind.(*permit); is {
		return []string{p.semaphore.wire.Key}
	}
	return lock.keys()
}

// noteBegan notes that the lock is held. A shorter run than historyPause has only the entry of its
// end.
func (lock *Lock) noteBegan() {
	l := lock.locker
	began := l.clock.Wall().Add(-l.clock.Now().Sub(lock.acquired))
	lock.note(journal.Entry{Kind: journal.Began, BeganMillis: began.UnixMilli()})
}

// noteEnded notes how a lock ended.
func (lock *Lock) noteEnded(to state, reason error) {
	l := lock.locker
	e := journal.Entry{Kind: journal.Ran, BeganMillis: l.clock.Wall().Add(-l.clock.Now().Sub(lock.acquired)).UnixMilli()}
	switch {
	case to == lost && errors.Is(reason, errMaxHold):
		e.Kind = journal.Cut
	case to == lost:
		e.Kind = journal.Lost
	}
	if to == lost {
		e.Why = lock.whyLost(reason)
	}
	lock.note(e)
}

func (lock *Lock) note(e journal.Entry) {
	holder, _, _ := owner.Of(lock.value)
	e.ID, e.Holder = journal.RunID(lock.value), owner.Shown(holder)
	for _, key := range lock.notedKeys() {
		lock.locker.history.note(key, e)
	}
}

// whyLost returns the reason for the log, whose entry has the name.
func (lock *Lock) whyLost(reason error) string {
	why := strings.TrimPrefix(reason.Error(), ErrLost.Error()+": ")
	return strings.Replace(why, fmt.Sprintf(" %q", lock.Name()), "", 1)
}

// missed notes a call that did not get its lock, and returns its error.
func (c *call) missed(err error) error {
	l := c.locker
	if !c.history || err == nil || c.first != "" || errors.Is(err, ErrInvalid) || errors.Is(err, ErrClosed) {
		return err
	}
	e := journal.Entry{Kind: journal.Missed, BeganMillis: c.asks}
	_, semaphore := c.kind.(*permit)
	switch {
	case errors.Is(err, ErrTaken):
		e.Kind, e.AskHolder = journal.Refused, !semaphore
	case errors.Is(err, ErrNoQuorum):
		e.Kind = journal.NoQuorum
	}
	for _, name := range c.names() {
		e.Why = strings.Replace(strings.TrimPrefix(err.Error(), "redlock: "), fmt.Sprintf(" %q", name), "", 1)
		l.history.note(l.config.keyPrefix+name, e)
	}
	return err
}
