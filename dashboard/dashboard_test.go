package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/journal"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

func TestNamesOfLocksAreShownAndNotObeyed(t *testing.T) {
	s := &script{}
	for i, name := range hostile {
		s.locks = append(s.locks, held(name, hostile[(i+1)%len(hostile)]))
		s.events = append(s.events, survey.Event{ID: name, Key: name, Kind: name, Holder: name, By: name, Why: name})
	}
	d := open(t, s, settings{})
	for _, target := range append([]string{"/", "/locks", "/members", "/elections", "/log"}, lockLinks(hostile...)...) {
		page := get(t, d, "/"+strings.TrimPrefix(target, "/"))
		for _, forbidden := range []string{"<script>alert", "<img src=x", "\u202e", "\x00", "</title><script>", "secret", "VALUEVALUE|", "\xff"} {
			assert.False(t, strings.Contains(page, forbidden), "%q on %.80s", forbidden, target) // pages are long
		}
		assert.False(t, strings.Contains(page, `href="javascript:`), "%.80s", target)
	}
	page := get(t, d, "/lock?name=%FF%FE")
	assert.Contains(t, page, `<h1>\xff\xfe</h1>`)
	assert.Contains(t, page, "VALUEVAL…", "with the whole value, anyone could release the lock")
}

func lockLinks(names ...string) (links []string) {
	for _, name := range names {
		links = append(links, lockLink(name))
	}
	return links
}

func TestEachPageTellsWhatItIsFor(t *testing.T) {
	s := &script{locks: []survey.Inspection{held("x", "me"), held("y", "you")}, events: []survey.Event{
		{ID: "1", Key: "x", Kind: "forced", Why: "gone"},
		{ID: "2", Kind: journal.Added, Why: "redis://c:1"},
		{ID: "3", Key: "x", Kind: journal.Ran, Holder: "<me>", By: "me", Millis: 3_600_000, BeganMillis: 1_000, Status: new(int)},
	}}
	s.locks[0].Tenure = survey.Tenure{Since: "2026-11-27T01:00:00Z", HeldMillis: 5000}
	s.locks[1].Tenure = survey.Tenure{Since: "2026-11-01T01:00:00Z", HeldMillis: 5000000} // a leader stays
	s.locks[1].Kind, s.locks[1].Term, s.locks[1].NewestTerm = survey.KindElection, 7, 7
	s.locks[1].Terms = []survey.Term{{Term: 7, Owner: "you"}, {Term: 5, Owner: "another"}}
	d := open(t, s, settings{})
	for target, wants := range map[string][]string{
		"/":            {"Too few masters vote: 1 of 3", "quarantined", "lost", "-1000.0 ms", "3 MiB", "redis 8", "…@c:1: &lt;refused&gt;", "down"},
		"/locks":       {"2 locks: 2 held. Waiting: 4.", ">x<", ">me<", "9s", ">7<", "2 of 3"},
		"/locks?q=Y":   {"1 match", ">y<"},
		"/lock?name=x": {"is held by me", "first", "second", "forced", "gone", "1970-01-01 00:00:01", "&lt;me&gt;", "after 59m59s; exit status 0", "Token of the holder: 7", "holds it"},
		"/members":     {"A1", "1 of 2 members are known to have version 2.", "added", "redis://c:1"},
		"/elections":   {"you</bdi> leads in term 7", "another"},
		"/log":         {"forced", "gone", `href="lock?name=x"`},
		"/metrics":     {"redquorum_node_up{node=\"redis://a:1\"} 1\n", "redquorum_node_votes{node=\"redis://b:1\"} 0\n", "redquorum_serve_locks{state=\"held\"} 2\n", "serve_oldest_hold_seconds 5\n"},
	} {
		page := get(t, d, target)
		for _, want := range wants {
			assert.Contains(t, page, want, target)
		}
	}
	assert.NotContains(t, get(t, d, "/locks?owner=you"), ">x<")
	assert.NotContains(t, get(t, d, "/lock?name=x"), "<form", "it only reads")
}

func TestTheAPIPrintsWhatTheCommandDoes(t *testing.T) {
	s := &script{locks: []survey.Inspection{held("x", "me")}, events: []survey.Event{{ID: "1", Key: "x"}}}
	d := open(t, s, settings{})
	var list survey.Listing
	require.NoError(t, json.Unmarshal([]byte(get(t, d, "/api/v1/list")), &list))
	assert.Equal(t, s.locks[0].Value, list.Locks[0].Value)
	var in survey.Inspection
	require.NoError(t, json.Unmarshal([]byte(get(t, d, "/api/v1/inspect?name=x")), &in))
	assert.Equal(t, s.events, in.History)
	in.History = nil
	assert.Equal(t, list.Locks[0], in)
	assert.Contains(t, get(t, d, "/api/v1/log"), `"complete": true`)
	var told survey.Events
	require.NoError(t, json.Unmarshal([]byte(get(t, d, "/api/v1/log?name=x")), &told))
	assert.Equal(t, survey.Events{Complete: true, Events: s.events}, told)
	require.NoError(t, json.Unmarshal([]byte(get(t, d, "/api/v1/log?name=y")), &told))
	assert.Equal(t, survey.Events{Complete: true, Events: []survey.Event{}}, told)
	assert.Contains(t, get(t, d, "/api/v1/members"), `"version": 2`)
	for target, status := range map[string]int{
		"/api/v1/inspect": 400, "/api/v1/log?name=": 400, "/api/v1/inspect?name=" + strings.Repeat("x", 4097): 400, "/lock": 400, "/live/lock": 400,
		"/nothing": 404, "/assets/views.html": 404, "/assets/style.css": 200, "/assets/..%2fwatch.go": 400, "/api/v1/unlock?name=x": 404, "/healthz": 200,
	} {
		assert.Equal(t, status, do(d, "GET", target).Code, target)
	}
	assert.Equal(t, http.StatusNotFound, do(d, "POST", "/force?name=x").Code, "read only")
}

func TestBrowsersAreToldToLoadNothingElse(t *testing.T) {
	d := open(t, &script{}, settings{})
	for _, target := range []string{"/", "/nothing", "/assets/live.js", "/healthz"} {
		h := do(d, "GET", target).Header()
		assert.NotContains(t, h.Get("Content-Security-Policy"), "unsafe", target)
		assert.Contains(t, h.Get("Content-Security-Policy"), "default-src 'none'", target)
		assert.Equal(t, "nosniff", h.Get("X-Content-Type-Options"), target)
	}
	page := get(t, d, "/locks")
	for _, forbidden := range []string{"http://", "https://", "style=", "onclick", "<style", `="/`} {
		assert.NotContains(t, page, forbidden)
	}
}

func TestAPageOf10000LocksHas50(t *testing.T) {
	s := &script{}
	for i := range 10_000 {
		s.locks = append(s.locks, held("job"+string(rune('a'+i%26))+strings.Repeat("x", i%7)+url.QueryEscape(string(rune(0x4e00+i))), "me"))
	}
	d := open(t, s, settings{})
	page := get(t, d, "/locks?page=3&sort=waiting&down=1")
	assert.Equal(t, perPage, strings.Count(page, "<tr role=\"row\" data-key"))
	assert.Contains(t, page, "Page 3 of 200")
	assert.Contains(t, page, `rel="next"`)
	assert.Contains(t, get(t, d, "/locks?page=99999"), "Page 200 of 200")
	assert.Contains(t, get(t, d, "/locks?page=-1&sort=nonsense"), "Page 1 of 200")
	assert.Less(t, len(page), 60<<10)
}

// loggedIn logs in whoever says so.
func loggedIn(r *http.Request) (string, bool) {
	user, password, _ := r.BasicAuth()
	return user, password == "right"
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	_, err := New(t.Context(), []string{"a:1"}, WithBounds(0, 1))
	require.ErrorIs(t, err, redlock.ErrInvalid)
	_, err = New(t.Context(), []string{":::"})
	require.ErrorIs(t, err, pool.ErrEndpoint)
}

func TestAForcedReleaseNeedsALoginTheNameAndAReason(t *testing.T) {
	_, err := New(t.Context(), []string{"a:1"}, WithForce())
	require.ErrorIs(t, err, errNoLogin)
	require.ErrorIs(t, err, redlock.ErrInvalid)
	s := &script{locks: []survey.Inspection{held("x\n", "me")}}
	d := open(t, s, settings{force: true, login: loggedIn})
	post := func(target, confirm, reason, password, origin string) *httptest.ResponseRecorder {
		return do(d, "POST", target, func(r *http.Request) {
			r.PostForm = url.Values{"confirm": {confirm}, "reason": {reason}, "digest": {"seen"}}
			r.SetBasicAuth("ann", password)
			r.Header.Set("Sec-Fetch-Site", origin)
		})
	}
	for _, c := range []struct {
		confirm, reason, password, origin string
		status                            int
	}{
		{`x\n`, "gone", "wrong", "same-origin", http.StatusUnauthorized},
		{`x\n`, "gone", "right", "cross-site", http.StatusForbidden},
		{`x`, "gone", "right", "same-origin", http.StatusBadRequest},
		{`x\n`, " ", "right", "same-origin", http.StatusBadRequest},
		{`x\n`, strings.Repeat("x", 501), "right", "same-origin", http.StatusBadRequest},
	} {
		assert.Equal(t, c.status, post("/force?name=x%0A", c.confirm, c.reason, c.password, c.origin).Code, c)
	}
	assert.Nil(t, s.reason.Load())
	w := post("/force?name=x%0A", `x\n`, "gone", "right", "same-origin")
	assert.Equal(t, http.StatusSeeOther, w.Code)
	assert.Equal(t, "gone (ann, by redlock serve) seen", s.reason.Load())
	page := do(d, "GET", "/"+w.Header().Get("Location"), func(r *http.Request) { r.SetBasicAuth("ann", "right") }).Body.String()
	assert.Contains(t, page, "knows by 2026-01-01T00:00:00Z")
	assert.NotContains(t, strings.Join(resultIn(url.Values{"known": {"call 555"}}), ""), "555", "an address says nothing else")
	w = post("/api/v1/unlock?name=x%0A", "", "why", "right", "same-origin")
	assert.Contains(t, w.Body.String(), `"logged": true`)
	w = do(d, "POST", "/api/v1/unlock?name=x", func(r *http.Request) {
		r.PostForm = url.Values{"reason": {"gone"}}
		r.SetBasicAuth("ann", "right")
	})
	assert.Equal(t, http.StatusBadRequest, w.Code, "whatever was seen")
	s.err = &survey.ChangedError{Now: held("x", "the next one")}
	w = post("/api/v1/unlock?name=x", "", "gone", "right", "same-origin")
	assert.Equal(t, http.StatusConflict, w.Code)
	assert.Contains(t, w.Body.String(), "is held by the next one")
	assert.Contains(t, w.Body.String(), `"now": {`)
	w = post("/force?name=x", "x", "gone", "right", "same-origin")
	assert.Equal(t, http.StatusConflict, w.Code)
	assert.Contains(t, w.Body.String(), "is held by the next one")
	for err, status := range map[error]int{redlock.ErrNoQuorum: http.StatusServiceUnavailable, survey.ErrSemaphore: http.StatusConflict} {
		s.err = err
		assert.Equal(t, status, post("/force?name=x%0A", `x\n`, "gone", "right", "same-origin").Code)
	}
	for _, target := range []string{"/", "/api/v1/list", "/metrics", "/live/locks", "/assets/live.js"} {
		assert.Equal(t, http.StatusUnauthorized, do(d, "GET", target).Code, target)
	}
}

func TestManyViewersCostWhatOneDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{locks: []survey.Inspection{held("x", "me")}, calls: 5000}
		d := open(t, s, settings{})
		time.Sleep(time.Minute)
		assert.Zero(t, s.asks.vitals.Load(), "nobody looks")
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan struct{}, 2000)
		for i := range 1000 {
			go func() {
				do(d, "GET", []string{"/live/locks", "/live/lock?name=x", "/live/members", "/live/masters"}[i%4], func(r *http.Request) { *r = *r.WithContext(local(ctx)) })
				ended <- struct{}{}
			}()
		}
		for range 300 {
			for _, target := range []string{"/", "/locks", "/log", "/lock?name=x", "/metrics", "/api/v1/list"} {
				do(d, "GET", target)
			}
			time.Sleep(100 * time.Millisecond)
		}
		leave()
		for range 1000 {
			<-ended
		}
		for what, n := range map[string]int64{
			"vitals": s.asks.vitals.Load(), "members": s.asks.members.Load(), "log": s.asks.log.Load(), "names": s.asks.names.Load(),
		} {
			assert.InDelta(t, 30, n, 12, "%s: once a second for half a minute", what)
		}
		assert.InDelta(t, 6, s.asks.list.Load(), 2, "5,000 commands at 1,000 a second")
		after := s.asks.vitals.Load()
		time.Sleep(time.Hour)
		assert.LessOrEqual(t, s.asks.vitals.Load(), after+5, "everybody has left")
	})
}

// told is a response that is read while it is written.
type told struct {
	*httptest.ResponseRecorder
	lines chan string
}

func (w told) Write(text []byte) (int, error) {
	w.lines <- string(text)
	return len(text), nil
}

func TestAChangeIsToldWithinTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		d := open(t, s, settings{})
		ctx, leave := context.WithCancel(t.Context())
		lines := make(chan string, 1000)
		ended := make(chan struct{})
		for _, target := range []string{"/live/locks", "/live/lock?name=x"} {
			go func() {
				defer func() { ended <- struct{}{} }()
				r := httptest.NewRequest("GET", target, nil).WithContext(local(ctx))
				r.Host = "localhost"
				d.ServeHTTP(told{httptest.NewRecorder(), lines}, r)
			}()
		}
		for i := range 10 {
			time.Sleep(time.Duration(i) * 170 * time.Millisecond)
			owner, changed, pages := fmt.Sprint("owner", i), time.Now(), 0
			s.set(held("x", owner))
			for pages < 2 {
				if line := <-lines; strings.Contains(line, owner) {
					pages++
				}
			}
			assert.LessOrEqual(t, time.Since(changed), 2*time.Second)
		}
		leave()
		<-ended
		<-ended
	})
}

func TestManyNamesAreAskedAboutAFewAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		d := open(t, s, settings{})
		statuses := make(chan int)
		for i := range 1000 {
			go func() { statuses <- do(d, "GET", fmt.Sprint("/lock?name=n", i)).Code }()
		}
		counts := map[int]int{}
		for range 1000 {
			counts[<-statuses]++
		}
		assert.Positive(t, counts[http.StatusServiceUnavailable], "too many at once")
		assert.GreaterOrEqual(t, counts[http.StatusOK], mostNames/2, "a page asks for a lock and its history")
		time.Sleep(interval)
		assert.Equal(t, http.StatusOK, do(d, "GET", "/lock?name=y").Code)
		began, asked := time.Now(), s.asks.names.Load()
		for time.Since(began) < 30*time.Second {
			do(d, "GET", "/lock?name="+time.Now().Format(time.RFC3339Nano))
			time.Sleep(time.Millisecond)
		}
		assert.LessOrEqual(t, s.asks.names.Load()-asked, int64(32*mostNames))
	})
}

func TestAStreamTellsChangesAndEndsWithTheDashboard(t *testing.T) {
	t.Parallel()
	c := redlocktest.Start(t, 3)
	locker := c.Locker(t, redlock.WithNodeTimeout(10*time.Second), redlock.WithOwner("me"))
	d, err := New(t.Context(), c.Endpoints(), WithBounds(10_000, 100))
	require.NoError(t, err)
	server := httptest.NewServer(d)
	defer server.Close()
	response, err := http.Get(server.URL + "/live/locks")
	require.NoError(t, err)
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	until := func(want string) {
		t.Helper()
		for lines.Scan() {
			if text, is := strings.CutPrefix(lines.Text(), "data: "); is && strings.Contains(text, want) {
				return
			}
		}
		require.Fail(t, "the stream has ended")
	}
	until("No locks.")
	lock, err := locker.TryLock(t.Context(), "x")
	require.NoError(t, err)
	until(">me<")
	require.NoError(t, lock.Unlock(t.Context()))
	until("No locks.")
	d.Close()
	for lines.Scan() { // it ends
	}
	require.NoError(t, lines.Err())
}

func FuzzRequests(f *testing.F) {
	for _, name := range hostile {
		f.Add("GET", "locks", "q="+url.QueryEscape(name)+"&sort=left&page=2")
		f.Add("POST", "force", "name="+url.QueryEscape(name))
		f.Add("GET", name, name)
	}
	s := &script{locks: []survey.Inspection{held("x", "me"), held(hostile[0], hostile[1])}}
	d := newHandler(s, settings{force: true, login: func(*http.Request) (string, bool) { return "fuzz", true }}, clock.System())
	f.Cleanup(d.Close)
	f.Fuzz(func(t *testing.T, method, path, query string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.Method, r.URL.Path, r.URL.RawQuery = method, "/"+path, query
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // of streams
		defer cancel()
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r.WithContext(local(ctx)))
		assert.NotEqual(t, http.StatusInternalServerError, w.Code)
		assert.NotContains(t, w.Body.String(), "<script>alert")
		assert.NotContains(t, w.Body.String(), "<img src=x")
	})
}
