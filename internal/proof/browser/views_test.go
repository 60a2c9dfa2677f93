package browser

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/dashboard"
	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/queue"
	"github.com/redquorum/redquorum/redlock"
)

// prefers has the page be shown to somebody who prefers it dark, or light.
func prefers(mode string) step {
	return call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: mode}}})
}

// furnish has somebody use the masters for everything.
func (w *world) furnish() {
	w.t.Helper()
	w.lock("nightly")
	w.queue("nightly", "deploy@web-2:812 shop")
	w.queue("nightly", "deploy@web-3:97 shop")
	w.lock("orders/42", redlock.WithOwner("shop@web-3:3005"))
	_, err := w.locker.RLock(w.t.Context(), "catalog", redlock.WithOwner("report@db-1:500"))
	require.NoError(w.t, err)
	permits, err := w.locker.Semaphore("import", 3)
	require.NoError(w.t, err)
	_, err = permits.TryAcquire(w.t.Context(), redlock.WithOwner("importer@batch:7"))
	require.NoError(w.t, err)
	e, err := election.New(w.locker, "scheduler", election.WithID("scheduler@app-1:21"))
	require.NoError(w.t, err)
	led := make(chan int64)
	var running sync.WaitGroup
	ctx, resign := context.WithCancel(context.Background())
	running.Go(func() {
		err := e.Run(ctx, func(ctx context.Context, term int64) error {
			led <- term
			<-ctx.Done()
			return nil
		})
		assert.ErrorIs(w.t, cmp.Or(err, context.Canceled), context.Canceled) // or it got the lock
	})
	w.t.Cleanup(func() {
		resign()
		running.Wait()
	})
	<-led
	require.NoError(w.t, admin.Of(w.locker).ForceUnlock(w.t.Context(), "released"))
}

func TestEachViewIsUsableInDarkAndLightAndAt380Pixels(t *testing.T) {
	w := open(t, 3)
	w.furnish()
	p := w.tab("locks", 960, 480)
	p.shows("Waiting: 2.")
	p.picture("dashboard-locks.png")
	p.close()
	p = w.tab("lock?name=nightly", 380, 760, prefers("dark"))
	p.shows("deploy@web-3:97 shop")
	p.picture("dashboard-narrow.png")
	p.close()
	w.lock("<b>\u202eorders\n/7", redlock.WithOwner(strings.Repeat("long", 60)))
	views := map[string]string{
		"": "votes", "locks": "nightly", "lock?name=nightly": "deploy@web-3:97 shop", "lock?name=catalog": "report@db-1:500", "lock?name=import": "import#1",
		"lock?name=%3Cb%3E%E2%80%AEorders%0A%2F7": `<b>\u202eorders\n/7`, "members": "of which 2 make a quorum", "elections": "scheduler@app-1:21", "log": "The log is empty.", "nothing": "no such page",
	}
	for path, shows := range views {
		p := w.tab(path, 1100, 800)
		p.shows(shows)
		p.fits("/" + path)
		for mode, width := range map[string]int64{"light": 1100, "dark": 380} {
			p.do(prefers(mode), chromedp.EmulateViewport(width, 800))
			what := fmt.Sprintf("/%s, %s, %d pixels", path, mode, width)
			assert.Equal(t, mode == "dark", eval[bool](p, "getComputedStyle(document.body).backgroundColor != 'rgb(255, 255, 255)'"), what)
			p.isUsable(what)
		}
		p.without("404 (Not Found) " + w.url + "nothing")
		p.close()
	}
}

func TestAPageFollowsWhatHappens(t *testing.T) {
	w := open(t, 3)
	p := w.tab("locks", 1000, 600)
	p.shows("No locks.")
	eval[int](p, "window.mark = 1")
	lock := w.lock("orders/1")
	t.Logf("a new lock is on the page after %v", p.shows("orders/1").Round(time.Millisecond))
	p.on(selected(`a[href="lock?name=orders%2F1"]`), "focus")
	w.lock("a-first") // a row above the one that has the focus
	p.shows("a-first")
	w.queue("orders/1", "second")
	p.shows("Waiting: 1.")
	assert.Equal(t, "orders/1", eval[string](p, "document.activeElement.innerText"), "the focus stays")
	p.types("#q", "or")
	p.on(selected(".live button"), "click")
	p.await("document.querySelector('.live').innerText.includes('Paused')")
	require.NoError(t, lock.Unlock(t.Context()))
	again := w.tab("lock?name=orders%2F1", 1000, 600)
	again.shows("is held by second")
	assert.Contains(t, eval[string](p, "document.querySelector('main').innerText"), "deploy@web-1:4711", "paused")
	p.on(selected(".live button"), "click")
	p.await("[...document.querySelectorAll('tr')].some(r => r.innerText.includes('orders/1') && r.innerText.includes('second'))")
	assert.Equal(t, "or", eval[string](p, "document.querySelector('#q').value"), "what was typed stays")
	assert.Equal(t, 1, eval[int](p, "window.mark"), "it was not loaded again")
}

func TestLocksAreSearchedAndSorted(t *testing.T) {
	w := open(t, 3)
	for i, name := range []string{"job10", "job2", "other"} {
		w.lock(name, redlock.WithOwner(fmt.Sprint("owner-", 3-i)))
	}
	p := w.tab("locks", 1000, 600)
	p.lists("job2", "job10", "other") // numbers by their size
	p.click("Holder")
	p.lists("other", "job2", "job10")
	p.click("Holder")
	p.lists("job10", "job2", "other")
	p.types("#q", "JOB"+kb.Enter)
	p.shows("2 match.")
	p.lists("job10", "job2") // still by their holders
	p.types("#owner", "owner-2"+kb.Enter)
	p.shows("1 match.")
	p.lists("job2")
	p.click("Show all")
	p.await("document.querySelectorAll('tbody tr').length == 3")
}

func TestALockOverFiveMastersOfWhichOneIsDead(t *testing.T) {
	w := open(t, 5)
	w.lock("x")
	p := w.tab("lock?name=x", 1000, 700)
	p.shows("5 of 5 masters have its value")
	p.await("document.querySelector('tbody').innerText.split('holds it').length == 6")
	overview := w.tab("", 960, 480)
	require.NoError(t, w.Masters[4].Kill())
	overview.await("document.querySelectorAll('.state.bad').length == 1 && document.querySelectorAll('.state.good').length == 4")
	overview.picture("dashboard-masters.png")
	p.shows("does not count")
	p.shows("is held by deploy@web-1:4711 shop")
	for _, master := range []int{2, 3} {
		require.NoError(t, w.Masters[master].Kill())
	}
	overview.shows("Too few masters vote: 2 of 5, 3 are needed. Nobody can get a lock.")
	p.await("document.querySelector('main .state').innerText == 'unknown'")
}

func TestMembersAreToldWhileTheyChange(t *testing.T) {
	w := openFor(t, 3, 6*time.Second) // the wait before a change
	p := w.tab("members", 1000, 600)
	p.shows("All members know the version")
	require.NoError(t, w.Masters[2].Kill())
	p.shows("2 of 3 members are known to have version 1. Until all were told of it, one that is down can be removed")
	p.await("document.querySelectorAll('.state.bad').length == 1")
	members, err := admin.Of(w.locker).Cluster().Members(t.Context())
	require.NoError(t, err)
	for _, one := range members.Members {
		if !one.Up {
			require.NoError(t, admin.Of(w.locker).Cluster().Remove(t.Context(), one.ID))
		}
	}
	p.shows("version 2: 2 members, of which 2 make a quorum")
	p.shows("removed")
	require.NoError(t, admin.Of(w.locker).Cluster().SetMaxTTL(t.Context(), patience)) // the wait is long enough to be seen
	p.shows("Another change is possible in")
}

// login lets those in who know the password.
func login(r *http.Request) (string, bool) {
	user, password, _ := r.BasicAuth()
	return user, password == "correct horse"
}

// as logs in.
func as(user, password string) step {
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth(user, password)
	return call(network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Authorization": r.Header.Get("Authorization")}})
}

func TestAForcedReleaseIsTypedAndItsReasonIsInTheLog(t *testing.T) {
	w := open(t, 3, dashboard.WithLogin(login), dashboard.WithForce())
	lock := w.lock(`x"<y>`)
	p := w.tab("lock?name=x%22%3Cy%3E", 1000, 900, call(network.Enable, network.EnableParams{}), as("ann", "correct horse"))
	p.shows("Release by force")
	p.types("#confirm", "another")
	p.types("#reason", "host7 is gone"+kb.Enter)
	p.shows("Nothing was released")
	p.without("400 (Bad Request)")
	require.NoError(t, lock.Verify(t.Context()))
	p.navigate("lock?name=x%22%3Cy%3E")
	p.types("#confirm", `x\"<y>`)
	p.types("#reason", "host7 is gone"+kb.Enter)
	p.shows("Whoever held it, if still at work, knows by")
	p.shows("host7 is gone (ann, by redlock serve)")
	require.ErrorIs(t, lock.Verify(t.Context()), redlock.ErrLost)
	p.isUsable("after a release")
	p.navigate("log")
	p.shows("host7 is gone (ann, by redlock serve)")
}

// withOrders is a queue that has had a task that failed for good, and one that is due.
func withOrders(t *testing.T) (*queue.Queue, dashboard.Option) {
	t.Helper()
	if chromium == nil {
		t.Skip("chromium is not installed: apt-get install chromium")
	}
	masters, store := cluster.Start(t, 1), cluster.Start(t, 1)
	orders, err := queue.New(cluster.NewConnected(t, masters.URLs(), redlock.WithNodeTimeout(patience/6)), store.URLs()[0], "orders")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, orders.Close()) })
	require.NoError(t, orders.Enqueue(t.Context(), []string{`7"<b>`}, 0))
	ctx, stop := context.WithCancel(t.Context())
	require.NoError(t, orders.Run(ctx, func(context.Context, queue.Task) error {
		defer stop()
		return errors.New("no such <customer>")
	}, queue.WithMaxAttempts(1)))
	require.NoError(t, orders.Enqueue(t.Context(), []string{"8"}, 0))
	return orders, dashboard.WithQueue("orders", orders)
}

func TestADeadLetterIsFoundAndPutBack(t *testing.T) {
	orders, shown := withOrders(t)
	w := open(t, 1, shown, dashboard.WithLogin(login), dashboard.WithForce())
	p := w.tab("queues", 1000, 900, call(network.Enable, network.EnableParams{}), as("ann", "correct horse"))
	p.shows("Oldest is due since")
	p.isUsable("/queues")
	p.click("orders")
	p.shows("0 waiting, 1 due, 0 running, 1 dead.")
	p.shows("no such <customer>")
	p.isUsable("/queue")
	p.click(`7\"<b>`)
	p.shows("It died at")
	p.isUsable("/letter")
	p.types("#confirm", `7`)
	p.on(selected("button[value=retry]"), "click")
	p.shows("Nothing was changed")
	p.without("400 (Bad Request)")
	p.navigate("letter?name=orders&id=7%22%3Cb%3E")
	p.types("#confirm", `7\"<b>`)
	p.on(selected("button[value=retry]"), "click")
	p.shows("It is back in the queue")
	counts, err := orders.Count(t.Context())
	require.NoError(t, err)
	assert.Equal(t, queue.Counts{Due: 2}, counts)
	p.navigate("queue?name=orders")
	p.shows("2 due, 0 running, 0 dead")
	_, err = orders.Remove(t.Context(), "8")
	require.NoError(t, err)
	p.shows("1 due, 0 running, 0 dead") // it is not loaded again
}

// What a form names is what was shown when somebody began to fill it in.
func TestAFormReleasesWhatWasShownWhenItWasFilledIn(t *testing.T) {
	w := open(t, 3, dashboard.WithLogin(login), dashboard.WithForce())
	first := w.lock("x", redlock.WithOwner("first"))
	p := w.tab("lock?name=x", 1000, 900, call(network.Enable, network.EnableParams{}), as("ann", "correct horse"))
	p.shows("the lock of first")
	require.NoError(t, first.Unlock(t.Context()))
	second := w.lock("x", redlock.WithOwner("second"))
	p.shows("the lock of second") // nobody has typed anything
	p.types("#confirm", "x")
	require.NoError(t, second.Unlock(t.Context()))
	third := w.lock("x", redlock.WithOwner("third"))
	p.shows("is held by third")
	p.types("#reason", "second is gone"+kb.Enter)
	p.shows("Nothing was released: it has changed since it was looked at")
	p.without("409 (Conflict)")
	require.NoError(t, third.Verify(t.Context()))
}

func TestTheKeyboardAloneIsEnough(t *testing.T) {
	w := open(t, 3)
	w.lock("x")
	p := w.tab("", 1000, 600)
	press := func(key string, times int) {
		for range times {
			p.do(chromedp.KeyEvent(key))
		}
	}
	press(kb.Tab, 1)
	assert.Equal(t, "Skip to the content", eval[string](p, "document.activeElement.innerText"))
	assert.GreaterOrEqual(t, eval[float64](p, "document.activeElement.getBoundingClientRect().left"), 0.0, "it is seen when it has the focus")
	press(kb.Tab, 2)
	assert.Equal(t, "Locks", eval[string](p, "document.activeElement.innerText"))
	assert.NotEqual(t, "none", eval[string](p, "getComputedStyle(document.activeElement).outlineStyle"))
	press(kb.Enter, 1)
	p.await("document.title.startsWith('Locks') && document.querySelector('tbody a') !== null")
	for range 30 {
		if press(kb.Tab, 1); eval[string](p, "document.activeElement.innerText") == "x" {
			break
		}
	}
	press(kb.Enter, 1)
	p.shows("is held by deploy@web-1:4711 shop")
}

func TestThePagesTellWithoutJavaScript(t *testing.T) {
	w := open(t, 3)
	w.lock("x")
	p := w.tab("locks", 1000, 600, call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	tells := func(what string) {
		t.Helper()
		cluster.Eventually(t, patience, func() string {
			text, err := evaluate[string](p, "document.body.innerText")
			if err == nil && strings.Contains(text, what) {
				return ""
			}
			p.click("Ask again")
			time.Sleep(time.Second / 5)
			return fmt.Sprintf("%s (%v) in %s", what, err, text)
		})
	}
	tells("deploy@web-1:4711 shop")
	w.lock("y")
	tells("2 locks")
}

// fill gives the masters so many locks.
func (w *world) fill(locks int) {
	w.t.Helper()
	for _, m := range w.Masters {
		conn, err := redis.Dial("tcp", m.Addr())
		require.NoError(w.t, err)
		for i := range locks {
			require.NoError(w.t, conn.Send("SET", fmt.Sprint("job/", i), fmt.Sprintf("VALUE%d|@1760000000|worker-%d@host:1", i, i%100), "PX", 600_000))
		}
		_, err = conn.Do("")
		require.NoError(w.t, err)
		require.NoError(w.t, conn.Close())
	}
}

func TestTenThousandLocksStayFluent(t *testing.T) {
	w := open(t, 3)
	w.fill(10_000)
	p := w.tab("locks", 1000, 900)
	p.shows("10000 locks")
	p.shows("Page 1 of 200")
	p.click("Next")
	p.shows("Page 2 of 200")
	p.types("#q", "job/9999"+kb.Enter)
	p.shows("1 match.")
	p.lists("job/9999")
	for _, m := range w.Masters {
		_, err := m.Do("DEL", "job/9999")
		require.NoError(t, err)
	}
	p.await("document.querySelectorAll('tbody tr').length == 0") // long before the next listing
	timing := eval[[]float64](p, `(() => { const n = performance.getEntriesByType("navigation")[0]; return [n.responseStart - n.requestStart, n.transferSize] })()`)
	t.Logf("first byte after %.1f ms, %.0f bytes", timing[0], timing[1])
}
