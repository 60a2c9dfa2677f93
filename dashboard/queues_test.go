package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/queue/backlog"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

// backlogScript is a queue that says what the test wants.
type backlogScript struct {
	mu      sync.Mutex // guards the fields below
	counts  queue.Counts
	due     []queue.Task
	dead    []queue.DeadLetter
	err     error         // of all
	there   bool          // the ids of dead letters are in the queue again
	lag     time.Duration // how long each question takes
	settled []string
	asks    struct{ count, dead atomic.Int64 }
}

func (q *backlogScript) Count(context.Context) (queue.Counts, error) {
	q.asks.count.Add(1)
	time.Sleep(q.lag)
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.counts, q.err
}

func (q *backlogScript) Top(_ context.Context, n int) ([]queue.Task, error) {
	return q.due[:min(n, len(q.due))], q.err
}

func (q *backlogScript) Dead(_ context.Context, n int) ([]queue.DeadLetter, error) {
	q.asks.dead.Add(1)
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.dead[:min(n, len(q.dead))]), q.err
}

func (q *backlogScript) settle(what string, ids []string) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.there {
		return 0, nil
	}
	q.dead = slices.DeleteFunc(q.dead, func(l queue.DeadLetter) bool { return l.ID == ids[0] })
	q.settled = append(q.settled, what+" "+ids[0])
	return 1, nil
}

func (q *backlogScript) Retry(_ context.Context, ids ...string) (int, error) {
	return q.settle("retry", ids)
}

func (q *backlogScript) Drop(_ context.Context, ids ...string) (int, error) {
	return q.settle("drop", ids)
}

var died = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)

func letter(id, why string) queue.DeadLetter {
	return queue.DeadLetter{ID: id, Attempts: 3, Died: died, Payload: []byte("PAY " + id), Errors: []queue.Failure{{Attempt: 3, At: died, Text: why}}}
}

func orders(dead ...queue.DeadLetter) *backlogScript {
	return &backlogScript{
		counts: queue.Counts{Waiting: 11, Due: 12, Running: 13, Dead: len(dead)},
		due:    []queue.Task{{ID: "order-1", Score: float64(died.Unix()), Attempt: 2, Payload: []byte("give")}}, dead: dead,
	}
}

func shown(name string, q tasks) []shownQueue { return []shownQueue{{name, q}} }

func TestAPageTellsWhatAQueueHas(t *testing.T) {
	d := open(t, &script{}, settings{queues: shown("orders", orders(letter("order-7", "no such customer")))})
	for target, wants := range map[string][]string{
		"/":                              {`<a href="queues">Queues</a>`},
		"/queues":                        {`href="queue?name=orders"`, ">11<", ">12<", ">13<", ">1<", "2026-01-02 03:04:05", "As the stores told"},
		"/queue?name=orders":             {"11 waiting, 12 due, 13 running, 1 dead", "order-1", "give", "order-7", "no such customer", "11 more are due"},
		"/letter?name=orders&id=order-7": {"after 3 attempts", "PAY order-7", "no such customer", "Of the queue"},
		"/letter?name=orders&id=order-8": {"no such letter"},
		"/metrics":                       {`serve_queue_tasks{queue="orders",state="running"} 13`, `serve_queue_up{queue="orders"} 1`, `oldest_due_seconds{queue="orders"} `},
	} {
		page := get(t, d, target)
		for _, want := range wants {
			assert.Contains(t, page, want, target)
		}
		assert.NotContains(t, page, "<form", target)
	}
	var told backlog.Status
	require.NoError(t, json.Unmarshal([]byte(get(t, d, "/api/v1/queue?name=orders")), &told))
	assert.Equal(t, 13, told.Running)
	assert.Equal(t, "no such customer", told.Letters[0].Errors[0].Text)
	assert.Contains(t, get(t, d, "/api/v1/queues"), `"oldest_due": "2026-01-02T03:04:05Z"`)
	for target, status := range map[string]int{
		"/queue?name=x": 404, "/letter": 404, "/live/queue?name=x": 404, "/api/v1/queue": 404, "/settle": 404, "/api/v1/retry": 404,
	} {
		assert.Equal(t, status, do(d, "GET", target).Code, target)
	}
	without := open(t, &script{}, settings{})
	assert.NotContains(t, get(t, without, "/"), "Queues")
	assert.NotContains(t, get(t, without, "/metrics"), "queue")
	for _, target := range []string{"/queues", "/queue?name=orders", "/api/v1/queues"} {
		assert.Equal(t, http.StatusNotFound, do(without, "GET", target).Code, target)
	}
}

func TestTextsOfTasksAreShownAndNotObeyed(t *testing.T) {
	for i, name := range hostile {
		other := hostile[(i+1)%len(hostile)]
		q := orders(letter(name, other))
		q.due[0].ID, q.due[0].Payload = name, []byte(other)
		d := open(t, &script{}, settings{force: true, login: func(*http.Request) (string, bool) { return name, true }, queues: shown(name, q)})
		for _, target := range []string{"queues", queueLink(name), letterLink(name, name), letterLink(name, other) + "&done=" + url.QueryEscape(name)} {
			page := get(t, d, "/"+target)
			for _, forbidden := range []string{"<script>alert", "<img src=x", "\u202e", "\x00", "</title><script>", "\xff", `href="javascript:`} {
				assert.False(t, strings.Contains(page, forbidden), "%q on %.80s", forbidden, target)
			}
		}
	}
}

func TestADeadLetterIsSettledByWhoeverLogsInAndHasSeenIt(t *testing.T) {
	q := orders(letter("a\n", "no"), letter("b", "no"), letter("c", "no"))
	d := open(t, &script{}, settings{force: true, login: loggedIn, queues: shown("orders", q)})
	seen := seenOf(died)
	post := func(target string, form url.Values, change ...func(*http.Request)) *httptest.ResponseRecorder {
		return do(d, "POST", target, append([]func(*http.Request){func(r *http.Request) {
			r.PostForm = form
			r.SetBasicAuth("ann", "right")
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		}}, change...)...)
	}
	form := func(confirm, what, seen string) url.Values {
		return url.Values{"confirm": {confirm}, "do": {what}, "seen": {seen}}
	}
	at := "/settle?name=orders&id=a%0A"
	for what, c := range map[string]struct {
		target string
		form   url.Values
		change func(*http.Request)
		status int
	}{
		"another id":     {at, form("a", "retry", seen), headers(), 400},
		"no word":        {at, form(`a\n`, "", seen), headers(), 400},
		"another word":   {at, form(`a\n`, "eat", seen), headers(), 400},
		"nothing seen":   {at, form(`a\n`, "drop", ""), headers(), 400},
		"another death":  {at, form(`a\n`, "drop", "7"), headers(), 409},
		"no such letter": {"/settle?name=orders&id=z", form("z", "drop", seen), headers(), 409},
		"no such queue":  {"/settle?name=x&id=a%0A", form(`a\n`, "drop", seen), headers(), 404},
		"no login":       {at, form(`a\n`, "drop", seen), func(r *http.Request) { r.SetBasicAuth("ann", "no") }, 401},
		"another site":   {at, form(`a\n`, "drop", seen), headers("Sec-Fetch-Site", "cross-site"), 403},
		"by a program":   {"/api/v1/drop?name=orders&id=b", nil, headers(), 400},
	} {
		assert.Equal(t, c.status, post(c.target, c.form, c.change).Code, what)
	}
	assert.Empty(t, q.settled)
	w := post(at, form(`a\n`, "retry", seen))
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
	as := func(r *http.Request) { r.SetBasicAuth("ann", "right") }
	page := do(d, "GET", "/"+w.Header().Get("Location"), as).Body.String()
	assert.Contains(t, page, "back in the queue")
	assert.NotContains(t, page, "<form", "it is no letter any more")
	assert.Contains(t, do(d, "GET", "/letter?name=orders&id=b", as).Body.String(), `name="seen" value="`+seen)
	w = post("/api/v1/drop?name=orders&id=b", url.Values{"seen": {seen}})
	assert.Contains(t, w.Body.String(), `"done": "drop"`)
	assert.Equal(t, []string{"retry a\n", "drop b"}, q.settled)
	q.there = true
	w = post("/api/v1/retry?name=orders&id=c", url.Values{"seen": {seen}})
	assert.Equal(t, http.StatusConflict, w.Code)
	assert.Contains(t, w.Body.String(), "in the queue again")
	q.err = redlock.ErrTaken
	assert.Equal(t, http.StatusServiceUnavailable, post("/api/v1/retry?name=orders&id=c", url.Values{"seen": {seen}}).Code)
	reader := open(t, &script{}, settings{queues: shown("orders", q)})
	assert.Equal(t, http.StatusNotFound, do(reader, "POST", at).Code, "it only reads")
}

// What was asked before a letter was settled may say that it is there.
func TestALetterThatIsSettledIsNotShownByAnOlderAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := orders(letter("a", "no"))
		d := open(t, &script{}, settings{queues: shown("orders", q)})
		require.Contains(t, get(t, d, "/queue?name=orders"), "id=a")
		time.Sleep(2 * time.Second)
		now := d.watch.clock.Now()
		take := d.watch.count(t.Context(), map[subject]bool{tasksOf("orders"): true}, now)
		q.mu.Lock()
		q.dead = nil
		q.mu.Unlock()
		require.NoError(t, d.watch.do(t.Context(), func(context.Context) {}, func() {
			d.watch.forgetQueue("orders")
			take() // the older answer comes after the change
		}))
		assert.NotContains(t, get(t, d, "/queue?name=orders"), "id=a")
	})
}

func TestAStoreThatDoesNotAnswerHoldsUpNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, away := orders(), orders()
		slow.lag, away.err = time.Hour, errors.New("dial redis://:secret@d:1: refused")
		d := open(t, &script{locks: []survey.Inspection{held("x", "me")}}, settings{queues: []shownQueue{{"away", away}}})
		page := get(t, d, "/queues")
		assert.Contains(t, page, "The store does not answer: dial redis://…@d:1: refused")
		assert.Contains(t, get(t, d, "/queue?name=away"), "does not answer")
		assert.Equal(t, http.StatusServiceUnavailable, do(d, "GET", "/api/v1/queues").Code)
		assert.Equal(t, http.StatusServiceUnavailable, do(d, "GET", "/api/v1/queue?name=away").Code)
		assert.Contains(t, get(t, d, "/metrics"), `serve_queue_up{queue="away"} 0`)

		slow.lag = 3 * time.Second
		d = open(t, &script{locks: []survey.Inspection{held("x", "me")}}, settings{queues: shown("slow", slow)})
		asked := make(chan string, 1)
		go func() { asked <- do(d, "GET", "/queues").Body.String() }()
		synctest.Wait()
		began := time.Now()
		assert.Contains(t, get(t, d, "/locks"), ">x<")
		assert.Less(t, time.Since(began), time.Second)
		assert.Contains(t, <-asked, ">13<")
	})
}

func TestManyViewersOfQueuesCostTheirStoreWhatOneDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := orders(letter("a", "no"))
		d := open(t, &script{}, settings{queues: shown("orders", q)})
		time.Sleep(time.Minute)
		assert.Zero(t, q.asks.count.Load(), "nobody looks")
		for range 300 {
			for _, target := range []string{"/queues", "/metrics"} {
				get(t, d, target)
			}
			time.Sleep(100 * time.Millisecond)
		}
		assert.InDelta(t, 30, q.asks.count.Load(), 12, "once a second for half a minute")
		assert.Zero(t, q.asks.dead.Load(), "the letters are for the page of a queue")
	})
}

// A real queue on a server: what the page changes is what workers see.
func TestAQueueIsShownAndSettledAtItsStore(t *testing.T) {
	c := redlocktest.Start(t, 3)
	store := redlocktest.Start(t, 1)
	q, err := queue.New(c.Locker(t, redlock.WithNodeTimeout(10*time.Second)), store.Endpoints()[0], "orders")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, q.Close()) })
	require.NoError(t, q.Add(t.Context(), []queue.Item{{ID: "7", Payload: []byte("x")}}, 0))
	ctx, stop := context.WithCancel(t.Context())
	require.NoError(t, q.Run(ctx, func(context.Context, queue.Task) error {
		defer stop()
		return errors.New("no such customer")
	}, queue.WithMaxAttempts(1)))
	_, err = New(t.Context(), c.Endpoints(), WithQueue("orders", nil))
	require.ErrorIs(t, err, redlock.ErrInvalid)
	_, err = New(t.Context(), c.Endpoints(), WithQueue("orders", q), WithQueue("orders", q))
	require.ErrorIs(t, err, redlock.ErrInvalid)
	d, err := New(t.Context(), c.Endpoints(), WithQueue("orders", q), WithForce(), WithLogin(loggedIn))
	require.NoError(t, err)
	t.Cleanup(d.Close)
	as := func(r *http.Request) { r.SetBasicAuth("ann", "right") }
	var told backlog.Status
	require.NoError(t, json.Unmarshal(do(d, "GET", "/api/v1/queue?name=orders", as).Body.Bytes(), &told))
	require.Equal(t, "no such customer", told.Letters[0].Errors[0].Text)
	w := do(d, "POST", "/api/v1/retry?name=orders&id=7", as, func(r *http.Request) {
		r.PostForm = url.Values{"seen": {told.Letters[0].Died.Format(time.RFC3339Nano)}}
	})
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	counts, err := q.Count(t.Context())
	require.NoError(t, err)
	assert.Equal(t, queue.Counts{Due: 1}, counts)
}
