package dashboard

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock"
)

const (
	// interval is between two looks at the same thing, however many people watch.
	interval = time.Second

	// gap is between two looks at different things.
	gap = 20 * time.Millisecond

	// fresh is the age up to which nobody waits for something newer.
	fresh = 2 * time.Second

	// patience bounds the wait for an answer of the masters. What is known is shown then.
	patience = 5 * time.Second

	// mostNames is how many names are asked about by themselves per interval. A lock and its
	// history are two.
	mostNames = 200

	// listingRate is what listings of locks may cost each master: commands per second, on average.
	listingRate = 1000
)

// subject is what can be looked at: one of these, or a lock by its name.
type subject struct{ topic, name string }

var (
	state      = subject{topic: "state"} // of the masters
	locks      = subject{topic: "locks"}
	membership = subject{topic: "members"}
	events     = subject{topic: "log"}
)

func lockOf(name string) subject { return subject{"lock", name} }

func historyOf(name string) subject { return subject{"log", name} }

// source is the masters.
type source interface {
	stats() redlock.Stats
	vitals(ctx context.Context) []admin.Vitals // in the order of the stats
	list(ctx context.Context) (survey.Listing, error)
	inspect(ctx context.Context, names []string, maySemaphore func(string) bool) ([]survey.Inspection, error)
	members(ctx context.Context) (survey.Members, error)
	log(ctx context.Context) (survey.Events, error)
	history(ctx context.Context, name string) (survey.Events, error)
	force(ctx context.Context, name, digest, reason string) (survey.Release, error)
	close()
}

// snapshot is what is known at one moment. It does not change.
type snapshot struct {
	at     time.Time
	stats  redlock.Stats
	vitals []admin.Vitals

	listing  survey.Listing // without its locks
	listedAt time.Time
	listDue  clock.Instant     // when there may be another one
	listErr  error             // of questions about its locks
	locks    []*entry          // in the order of their names
	named    map[string]*entry // the same, and what else somebody asked for

	members    survey.Members
	membersErr error
	events     survey.Events
	eventsErr  error
	histories  map[string]history

	queues map[string]*queueEntry // what their stores told

	told map[subject]clock.Instant // when they were asked for; absent: never; of names, see entry
}

// history is what is noted of one name.
type history struct {
	survey.Events

	err  error
	seen clock.Instant // when it was asked for
}

// due returns when a subject may be asked for again.
func (s *snapshot) due(of subject) clock.Instant {
	at, is := s.told[of]
	if told, known := s.histories[of.name]; known && of == historyOf(of.name) {
		at, is = told.seen, true
	}
	if e := s.named[of.name]; e != nil && of == lockOf(of.name) {
		at, is = e.seen, true
	}
	switch {
	case !is:
		return 0
	case of == locks:
		return s.listDue
	default:
		return at.Add(interval)
	}
}

// has reports whether a snapshot has a subject, and it is fresh.
func (s *snapshot) has(of subject, now clock.Instant) bool {
	due := s.due(of)
	return due != 0 && now < due.Add(fresh-interval)
}

// watch looks at the masters for everybody who looks at pages. One goroutine asks the masters, each
// thing once per interval and only while somebody looks at it. So the number of viewers makes no
// difference to the masters, and what they request little: there are four things, and mostNames.
type watch struct {
	source source
	queues []shownQueue
	clock  clock.Clock

	wake chan struct{}                            // somebody wants a look; has room for one
	jobs chan func(context.Context) (take func()) // changes
	stop context.CancelFunc
	done chan struct{} // closed at the end of run

	// These are used by run alone.
	looking, listing, counting bool                      // answers are on their way
	ended                      clock.Instant             // of the last look
	released                   map[subject]clock.Instant // what was known until then is from before a release

	mu      sync.Mutex       // guards the fields below
	wanted  map[subject]bool // since they were asked for
	names   int              // how many of these are names
	began   clock.Instant    // of the interval in which names were last asked about
	spent   [2]int           // what these have cost, by purse, less what intervals before could bear
	now     *snapshot
	changed chan struct{} // closed when there is a newer one
}

func newWatch(s source, queues []shownQueue, clk clock.Clock) *watch {
	ctx, stop := context.WithCancel(context.Background())
	w := &watch{
		source: s, queues: queues, clock: clk, wake: make(chan struct{}, 1), jobs: make(chan func(context.Context) func()), released: map[subject]clock.Instant{}, stop: stop, done: make(chan struct{}),
		wanted: map[subject]bool{}, now: &snapshot{}, changed: make(chan struct{}),
	}
	go w.run(ctx)
	return w
}

// close ends the looks, and the connections.
func (w *watch) close() {
	w.stop()
	<-w.done
}

// run decides what is asked, and takes the answers. What asks has a goroutine of its own: a list of
// all locks, one look at the queues in their stores, one at the rest, and releases, so that none of
// them holds up another.
func (w *watch) run(ctx context.Context) {
	defer close(w.done)
	defer w.source.close()
	var asking sync.WaitGroup
	defer asking.Wait()
	answers := make(chan func())
	start := func(ask func(context.Context) (take func())) {
		asking.Go(func() {
			take := ask(ctx)
			select {
			case answers <- take:
			case <-ctx.Done():
			}
		})
	}
	var due <-chan struct{} // nil: nobody looks
	var timer *clock.Timer
	plan := func() {
		if timer != nil {
			timer.Stop()
		}
		now := w.clock.Now()
		if at, is := w.next(); is {
			due, timer = clock.After(w.clock, max(at, w.ended.Add(gap), now).Sub(now))
		} else {
			due, timer = nil, nil
		}
	}
	for {
		select {
		case <-ctx.Done():
			if timer != nil {
				timer.Stop()
			}
			return
		case job := <-w.jobs:
			start(job)
		case take := <-answers:
			take()
			plan()
		case <-w.wake:
			plan()
		case <-due:
			w.look(start)
			plan()
		}
	}
}

// next returns when the next look is due, and whether any is.
func (w *watch) next() (at clock.Instant, is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at = math.MaxInt64
	for one := range w.wanted {
		if w.isOnItsWay(one) {
			continue
		}
		due := w.now.due(one)
		if spent := w.spentFor(one); spent >= mostNames {
			due = max(due, w.began.Add(time.Duration(spent/mostNames)*interval))
		}
		at, is = min(at, due), true
	}
	return at, is
}

// isOnItsWay reports whether such a thing is asked for at this moment.
func (w *watch) isOnItsWay(of subject) bool {
	switch {
	case of == locks:
		return w.listing
	case of.isOfStores():
		return w.counting
	default:
		return w.looking
	}
}

// take returns what is wanted and due. From then on it is wanted no more.
func (w *watch) take(now clock.Instant) (topics map[subject]bool, names, histories []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if since := now.Sub(w.began); since >= interval {
		w.began = now
		for i := range w.spent {
			w.spent[i] = max(w.spent[i]-int(min(since/interval, math.MaxInt32/mostNames))*mostNames, 0)
		}
	}
	topics = map[subject]bool{}
	for one := range w.wanted {
		if w.isOnItsWay(one) {
			continue
		}
		// What is nearly due is asked for as well, and from then on at once.
		if now.Add(interval/4) < w.now.due(one) || w.spentFor(one) >= mostNames {
			continue
		}
		if delete(w.wanted, one); one.name == "" {
			topics[one] = true
			continue
		}
		if one == historyOf(one.name) {
			histories = append(histories, one.name)
		} else {
			names = append(names, one.name)
		}
		w.names--
		purse, cost := w.now.cost(one)
		w.spent[purse] += cost
	}
	return topics, names, histories
}

// cost returns in names what it costs to ask about one, as far as that is known, and which of
// two purses pays: one is for semaphores alone, or a page of large ones would keep everybody from
// looking at other locks.
func (s *snapshot) cost(of subject) (purse, cost int) {
	if e := s.named[of.name]; of == lockOf(of.name) && e != nil && len(e.Permits) > 0 {
		return 1, 1 + weight(e.Inspection)
	}
	return 0, 1
}

// spentFor returns what has been spent from the purse that pays for a subject.
func (w *watch) spentFor(of subject) int {
	if of.name == "" {
		return 0
	}
	purse, _ := w.now.cost(of)
	return w.spent[purse]
}

// owe has what answers have cost more than was known paid, from the purse of names.
func (w *watch) owe(told []survey.Inspection, known map[string]*entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range told {
		paid := 0
		if e := known[told[i].Name]; e != nil {
			paid = weight(e.Inspection)
		}
		w.spent[0] += max(weight(&told[i])-paid, 0)
	}
}

// look has the masters asked for what is wanted and due.
func (w *watch) look(start func(ask func(context.Context) (take func()))) {
	now := w.clock.Now()
	topics, names, histories := w.take(now)
	if topics[locks] {
		delete(topics, locks)
		w.listing = true
		start(func(ctx context.Context) func() { return w.list(ctx, now) })
	}
	stores := map[subject]bool{}
	for topic := range topics {
		if topic.isOfStores() {
			stores[topic] = true
			delete(topics, topic)
		}
	}
	if len(stores) > 0 {
		w.counting = true
		start(func(ctx context.Context) func() { return w.count(ctx, stores, now) })
	}
	if len(topics)+len(names)+len(histories) > 0 {
		w.looking = true
		start(func(ctx context.Context) func() { return w.ask(ctx, topics, names, histories, now) })
	}
}

// newer returns a copy of what is known, to be changed and published.
func (w *watch) newer() *snapshot {
	s := *w.latest()
	if s.told = maps.Clone(s.told); s.told == nil {
		s.told = map[subject]clock.Instant{}
	}
	return &s
}

// isReleased reports whether what was asked for at a moment is from before a release.
func (w *watch) isReleased(of subject, asked clock.Instant) bool {
	at, is := w.released[of]
	return is && asked <= at
}

func (w *watch) publish(s *snapshot) {
	s.stats, s.at = w.source.stats(), w.clock.Wall()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = s
	close(w.changed)
	w.changed = make(chan struct{})
}

// forget has a name and the log be asked for anew: what is known is from before a release, and so
// is what is on its way.
func (w *watch) forget(name string) {
	now := w.clock.Now()
	maps.DeleteFunc(w.released, func(_ subject, at clock.Instant) bool { return now.Sub(at) > 2*listBound })
	w.released[lockOf(name)], w.released[historyOf(name)], w.released[events] = now, now, now
	s := w.newer()
	s.named = maps.Clone(s.named)
	delete(s.named, name)
	s.histories = maps.Clone(s.histories)
	delete(s.histories, name)
	delete(s.told, events)
	w.publish(s)
}

func (w *watch) latest() *snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// age returns how long ago the masters were asked last.
func (w *watch) age() time.Duration {
	at := w.latest().at
	if at.IsZero() {
		return 0
	}
	return w.clock.Wall().Sub(at)
}

// errBusy says that too many different locks are looked at.
var errBusy = errors.New("too many different locks are looked at; try again in some seconds")

// want notes what is wanted, beside the state of the masters, and returns what is known, and when
// there is something newer. It wakes the goroutine that looks.
func (w *watch) want(all ...subject) (s *snapshot, changed <-chan struct{}, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range append(all, state) {
		switch {
		case w.wanted[one]:
			continue
		case one.name != "" && w.names >= mostNames:
			err = errBusy
			continue
		case one.name != "":
			w.names++
		}
		w.wanted[one] = true
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return w.now, w.changed, err
}

// get returns a snapshot that has what is wanted, and is fresh, if the masters answer in time.
func (w *watch) get(ctx context.Context, all ...subject) (*snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	lacks := func(s *snapshot) bool {
		return slices.ContainsFunc(append(all, state), func(one subject) bool { return !s.has(one, w.clock.Now()) })
	}
	for s := w.latest(); lacks(s); {
		newer, changed, err := w.want(all...)
		if s = newer; err != nil || !lacks(s) {
			return s, err
		}
		select {
		case <-changed:
			s = w.latest()
		case <-w.done:
			return s, nil
		case <-ctx.Done():
			return s, w.busy(all)
		}
	}
	return w.latest(), nil
}

// busy returns an error if one of these is a name that waits for others.
func (w *watch) busy(all []subject) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.ContainsFunc(all, func(one subject) bool { return w.wanted[one] && w.spentFor(one) >= mostNames }) {
		return errBusy
	}
	return nil
}

// do changes something, whatever else is asked meanwhile, and has what is known of it forgotten.
func (w *watch) do(ctx context.Context, change func(context.Context), forget func()) error {
	ended := make(chan struct{})
	job := func(alive context.Context) (take func()) {
		ctx, cancel := context.WithTimeout(alive, 2*patience)
		defer cancel()
		change(ctx)
		return func() {
			forget()
			close(ended)
		}
	}
	select {
	case w.jobs <- job:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.done:
		return redlock.ErrClosed
	}
	select {
	case <-ended:
		return nil
	case <-w.done:
		return redlock.ErrClosed
	}
}
