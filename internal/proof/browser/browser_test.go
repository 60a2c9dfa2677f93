// Package browser looks at the dashboard as people do: with Chromium, on real servers.
package browser

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/dashboard"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
)

// pictures is where pictures of the pages go (docs/images), if they are wanted.
var pictures = flag.String("pictures", "", "write pictures of the pages into this `folder`")

const (
	// patience bounds what takes moments on a machine that is not busy.
	patience = time.Minute

	// look is between two looks at what shall become so: a busy machine has better things to do.
	look = 50 * time.Millisecond
)

// programs are the names that Chromium goes by.
var programs = []string{"chromium", "chromium-browser", "google-chrome"}

// find returns the path of the browser.
func find() (path string, err error) {
	for _, name := range programs {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", err
}

// chromium is one browser for all tests. Each has a tab.
var chromium context.Context

func TestMain(m *testing.M) {
	flag.Parse()
	path, err := find()
	if err != nil {
		if os.Getenv("CI") == "true" {
			fmt.Fprintln(os.Stderr, "chromium is missing:", err)
			os.Exit(1)
		}
		os.Exit(m.Run()) // each test says why it is skipped
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(patience))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	var stop context.CancelFunc
	chromium, stop = chromedp.NewContext(allocator)
	err = chromedp.Do(chromium)
	status := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, "chromium does not start:", err)
	} else {
		status = m.Run()
	}
	stop()
	end()
	os.Exit(status)
}

// world is masters, somebody who uses them, and their page.
type world struct {
	*cluster.Cluster
	t      *testing.T
	maxTTL time.Duration
	locker *redlock.Locker
	url    string
}

// program is the Locker of a process.
func (w *world) program() *redlock.Locker {
	w.t.Helper()
	return cluster.NewConnected(w.t, w.URLs(), redlock.WithFencing(), redlock.WithOwner("deploy@web-1:4711 shop"),
		redlock.WithMaxTTL(w.maxTTL), redlock.WithTTL(w.maxTTL/2), redlock.WithNodeTimeout(patience/6))
}

// open starts masters, and serves their page.
func open(t *testing.T, masters int, opts ...dashboard.Option) *world {
	t.Helper()
	return openFor(t, masters, patience, opts...)
}

// openFor is open for a MaxTTL that the test waits for. Half of it is the TTL of what is held: that
// outlasts whatever keeps a busy machine from renewing it, if it is long.
func openFor(t *testing.T, masters int, maxTTL time.Duration, opts ...dashboard.Option) *world {
	t.Helper()
	if chromium == nil {
		t.Skip("chromium is not installed: apt-get install chromium")
	}
	w := &world{t: t, maxTTL: maxTTL, Cluster: cluster.Start(t, masters)}
	w.locker = w.program()
	require.NoError(t, w.locker.Ready(t.Context()))
	page, err := dashboard.New(t.Context(), w.URLs(), append([]dashboard.Option{dashboard.WithMaxTTL(maxTTL)}, opts...)...)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.Handle("/below/", http.StripPrefix("/below", page))
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		page.Close()
		server.Close()
	})
	w.url = server.URL + "/below/"
	return w
}

// lock holds a lock until the end of the test.
func (w *world) lock(name string, opts ...redlock.LockOption) *redlock.Lock {
	w.t.Helper()
	lock, err := w.locker.Lock(w.t.Context(), name, opts...)
	require.NoError(w.t, err)
	return lock
}

// queue waits for a lock until the end of the test, as another process would.
func (w *world) queue(name, owner string) {
	ctx, stop := context.WithCancel(context.Background())
	var waiting sync.WaitGroup
	process := w.program()
	waiting.Go(func() {
		_, err := process.Lock(ctx, name, redlock.WithOwner(owner))
		assert.ErrorIs(w.t, cmp.Or(err, context.Canceled), context.Canceled) // or it got the lock
	})
	w.t.Cleanup(func() {
		stop()
		waiting.Wait()
	})
}

// tab is a tab of the browser. Whatever it complains of fails the test.
type tab struct {
	t     *testing.T
	ctx   context.Context //nolint:containedctx // it is the tab
	url   string
	close func() // a browser has few connections to one server, and each page keeps one

	mu   sync.Mutex // guards the field below
	said []string
}

// tab opens a page in a window of this size.
func (w *world) tab(path string, width, height int64, actions ...step) *tab {
	w.t.Helper()
	one := &tab{t: w.t, url: w.url}
	var cancel context.CancelFunc
	one.ctx, cancel = chromedp.NewContext(chromium, chromedp.WithListener(one.hear))
	require.NoError(w.t, chromedp.Do(one.ctx)) // a bound on this one would be the tab's
	one.close = sync.OnceFunc(func() {
		one.mu.Lock()
		assert.Empty(w.t, one.said, "the console of /%s", path)
		one.mu.Unlock()
		cancel()
	})
	w.t.Cleanup(one.close)
	one.do(call(cdplog.Enable, cdp.Empty{}), chromedp.EmulateViewport(width, height))
	one.do(actions...)
	one.navigate(path)
	return one
}

// navigate goes to a page.
func (p *tab) navigate(path string) {
	p.t.Helper()
	p.do(chromedp.Navigate(p.url + path))
	p.await("document.readyState == 'complete' && document.querySelector('main h1') !== null")
}

// step is something that is done in a tab.
type step = chromedp.Action[chromedp.Void]

// call is a step that is a command of the protocol.
func call[P any](command cdp.Command[P, cdp.Empty], params P) step {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

// hear takes note of what the browser complains of.
func (p *tab) hear(event any) {
	text := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text = fmt.Sprintf("%+v", e.ExceptionDetails)
	case *runtime.EventConsoleAPICalled:
		text = fmt.Sprint(e.Type, e.Args)
	case *cdplog.EventEntryAdded:
		text = fmt.Sprint(e.Entry.Level, " ", e.Entry.Text, " ", e.Entry.URL)
	default:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, text)
}

// do takes steps, each within patience.
func (p *tab) do(actions ...step) {
	p.t.Helper()
	for _, action := range actions {
		ctx, cancel := context.WithTimeout(p.ctx, patience)
		require.NoError(p.t, chromedp.Do(ctx, action))
		cancel()
	}
}

// evaluate evaluates an expression in the page, and waits for it if it is a promise.
func evaluate[T any](p *tab, expression string) (value T, err error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// eval is evaluate for what always works.
func eval[T any](p *tab, expression string) (value T) {
	p.t.Helper()
	value, err := evaluate[T](p, expression)
	require.NoError(p.t, err, expression)
	return value
}

// await waits until an expression is true in the page, whatever page that is meanwhile. It returns
// how long that took.
func (p *tab) await(expression string) (took time.Duration) {
	p.t.Helper()
	took = cluster.Eventually(p.t, patience, func() string {
		is, err := evaluate[bool](p, expression)
		if is {
			return ""
		}
		text, err2 := evaluate[string](p, "document.body.innerText")
		time.Sleep(look)
		return fmt.Sprintf("%s (%v) in %s", expression, errors.Join(err, err2), text)
	})
	if p.t.Failed() {
		p.t.FailNow()
	}
	return took
}

// shows waits until the page shows a text.
func (p *tab) shows(text string) (took time.Duration) {
	p.t.Helper()
	return p.await(fmt.Sprintf("document.querySelector('main').innerText.includes(%q)", text))
}

// on does something with an element as soon as there is one, on a page that is there as a whole.
// The page may be replaced at any moment, so one script finds the element and acts.
func (p *tab) on(element, action string) {
	p.t.Helper()
	p.await(fmt.Sprintf("(e => { if (!e || document.readyState != 'complete') return false; e.%s(); return true })(%s)", action, element))
}

func selected(selector string) string { return fmt.Sprintf("document.querySelector(%q)", selector) }

// click clicks on a link.
func (p *tab) click(text string) {
	p.t.Helper()
	p.on(fmt.Sprintf("[...document.querySelectorAll('main a')].find(a => a.innerText.trim() == %q)", text), "click")
}

// types types a text into a field.
func (p *tab) types(selector, text string) {
	p.t.Helper()
	p.on(selected(selector), "focus")
	p.do(chromedp.KeyEvent(text))
}

// lists waits until these are the first cells of the table's rows.
func (p *tab) lists(want ...string) {
	p.t.Helper()
	p.await(fmt.Sprintf("[...document.querySelectorAll('tbody th')].map(e => e.innerText).join() == %q", strings.Join(want, ",")))
}

// axe is axe-core (MPL 2.0), which finds what keeps people from using a page.
var axe = sync.OnceValues(func() (string, error) {
	file, err := os.Open("testdata/axe-core-4.14.1.min.js.gz")
	if err != nil {
		return "", err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(unzipped)
	return string(text), err
})

// isUsable asserts that axe has no serious finding.
func (p *tab) isUsable(what string) {
	p.t.Helper()
	script, err := axe()
	require.NoError(p.t, err)
	eval[int](p, script+";0")
	var found struct {
		Passes     int
		Violations []struct {
			ID, Impact, Help string
			Nodes            []struct{ HTML string }
		}
	}
	encoded := eval[string](p, `axe.run().then(r => JSON.stringify({
		passes: r.passes.length, violations: r.violations.filter(v => v.impact == 'serious' || v.impact == 'critical'),
	}))`)
	require.NoError(p.t, json.Unmarshal([]byte(encoded), &found))
	assert.Empty(p.t, found.Violations, what)
	assert.Positive(p.t, found.Passes, "axe looked")
}

// fits asserts that nothing is wider than the window, however wide that is.
func (p *tab) fits(what string) {
	p.t.Helper()
	for _, width := range []int64{380, 600, 880, 960, 1280} {
		p.do(chromedp.EmulateViewport(width, 800))
		assert.LessOrEqual(p.t, eval[int64](p, "document.documentElement.scrollWidth"), width, what)
	}
}

// picture writes what the window shows.
func (p *tab) picture(name string) {
	p.t.Helper()
	if *pictures == "" {
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	require.NoError(p.t, err)
	require.NoError(p.t, os.WriteFile(filepath.Join(*pictures, name), png, 0o644))
}

// without removes from what the console said a complaint that belongs to the test.
func (p *tab) without(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = slices.DeleteFunc(p.said, func(said string) bool { return strings.Contains(said, text) })
}
