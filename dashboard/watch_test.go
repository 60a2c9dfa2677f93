package dashboard

import (
	"context"
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
)

func TestLocksThatWereAskedAboutOnceAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		d := open(t, s, settings{})
		for i := range 5000 { // a program asks about each order while that is locked
			name := fmt.Sprint("order", i)
			s.set(held(name, "me"))
			require.Contains(t, get(t, d, "/api/v1/inspect?name="+name), `"verdict": "held"`)
		}
		time.Sleep(time.Minute)
		get(t, d, "/api/v1/inspect?name=another")
		assert.Less(t, len(d.watch.latest().named), 1000)
		assert.Less(t, len(d.watch.latest().locks), 1000)
	})
}

func TestAPageOfAFreeLockStaysWhenLocksAreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{locks: []survey.Inspection{held("other", "me")}, calls: 1700}
		d := open(t, s, settings{})
		get(t, d, "/lock?name=x")
		ctx, leave := context.WithCancel(t.Context())
		lines := make(chan string, 1000)
		ended := make(chan struct{}, 2)
		stream := func(target string, lines chan string) {
			defer func() { ended <- struct{}{} }()
			r := httptest.NewRequest("GET", target, nil).WithContext(local(ctx))
			r.Host = "localhost"
			d.ServeHTTP(told{httptest.NewRecorder(), lines}, r)
		}
		go stream("/live/lock?name=x", lines)
		time.Sleep(500 * time.Millisecond)
		go stream("/live/locks", make(chan string, 1000))
		time.Sleep(20 * time.Second)
		leave()
		<-ended
		<-ended
		close(lines)
		n := 0
		for line := range lines {
			if strings.Contains(line, "have not answered yet") {
				n++
			}
		}
		assert.Zero(t, n, "they have answered all the time")
	})
}

func TestAListHoldsUpNeitherOtherPagesNorReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{locks: []survey.Inspection{held("x", "first")}, slow: 15 * time.Second}
		d := open(t, s, settings{force: true, login: loggedIn})
		right := func(r *http.Request) { r.SetBasicAuth("ann", "right") }
		listed := make(chan string)
		go func() { listed <- do(d, "GET", "/locks", right).Body.String() }()
		time.Sleep(time.Second)
		began := time.Now()
		for range 5 {
			for _, target := range []string{"/", "/lock?name=x", "/members", "/log"} {
				assert.Contains(t, do(d, "GET", target, right).Body.String(), time.Now().UTC().Format("15:04"), target)
			}
			time.Sleep(interval)
		}
		assert.Less(t, time.Since(began), 6*time.Second)
		assert.GreaterOrEqual(t, s.asks.vitals.Load(), int64(5))
		assert.Contains(t, <-listed, "have not been listed yet")

		s.set(held("x", "second")) // as if by a release
		began = time.Now()
		w := do(d, "POST", "/api/v1/unlock?name=x", right, func(r *http.Request) { r.PostForm = url.Values{"reason": {"gone"}, "digest": {"seen"}} })
		assert.Equal(t, http.StatusOK, w.Code)
		assert.Less(t, time.Since(began), time.Second)
		time.Sleep(15 * time.Second)
		page := do(d, "GET", "/lock?name=x", right).Body.String()
		assert.Contains(t, page, "is held by second", "what the list says of it is older")
		assert.NotContains(t, do(d, "GET", "/locks", right).Body.String(), ">first<")
	})
}

func largeSemaphores() *script {
	s := &script{}
	for i := range 50 {
		in := held(fmt.Sprint("s", i), "me")
		in.Kind, in.Permits = survey.KindSemaphore, make([]survey.Holding, 1024)
		s.locks = append(s.locks, in)
	}
	return s
}

func TestAPageOfLargeSemaphoresKeepsNobodyFromOtherLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := largeSemaphores()
		s.locks = append(s.locks, held("x", "me"))
		d := open(t, s, settings{})
		for i := range 100 {
			get(t, d, "/locks")
			began := time.Now()
			get(t, d, "/lock?name=x")
			get(t, d, fmt.Sprint("/api/v1/inspect?name=free", i))
			require.Less(t, time.Since(began), 3*interval, i)
			time.Sleep(interval)
		}
	})
}

// Nothing is wrong with the masters, and what is shown would be old.
func TestANameThatWaitsForOthersIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, largeSemaphores(), settings{})
		get(t, d, "/lock?name=s0")
		for i := range 50 {
			go do(d, "GET", fmt.Sprint("/lock?name=s", i))
		}
		time.Sleep(2 * interval)
		w := do(d, "GET", "/api/v1/inspect?name=x")
		assert.Equal(t, http.StatusServiceUnavailable, w.Code)
		assert.Contains(t, w.Body.String(), errBusy.Error())
	})
}

func TestAPermitCostsWhatAMasterDoesForIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := largeSemaphores()
		d := open(t, s, settings{})
		get(t, d, "/locks")
		asked := s.asks.names.Load()
		const seconds = 300
		for range seconds {
			do(d, "GET", "/locks")
			time.Sleep(interval)
		}
		perName := 10 + 3*1024
		perSecond := (int(s.asks.names.Load()-asked)*perName + int(s.asks.list.Load())*50*perName) / seconds
		assert.LessOrEqual(t, perSecond, 10*mostNames+listingRate+2*perName)
		assert.Positive(t, s.asks.names.Load()-asked)
	})
}
