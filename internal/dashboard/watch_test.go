package dashboard

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/survey"
)

func TestLocksThatWereAskedAboutOnceAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		d := open(t, s, Config{})
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
		d := open(t, s, Config{})
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
