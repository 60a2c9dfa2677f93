package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/internal/prose"
)

// The script of a page that hears nothing says that it is not live.
func TestAStreamIsNeverQuietForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, &script{lag: 20 * time.Second}, settings{})
		ctx, leave := context.WithCancel(local(t.Context()))
		lines, ended := make(chan string, 1000), make(chan struct{})
		go func() {
			defer close(ended)
			r := httptest.NewRequest("GET", "/live/masters", nil).WithContext(ctx)
			r.Host = "localhost"
			d.ServeHTTP(told{httptest.NewRecorder(), lines}, r)
		}()
		var beats []string
		for began := time.Now(); time.Since(began) < time.Minute; {
			select {
			case line := <-lines:
				if data, is := strings.CutPrefix(line, "event: beat\ndata: "); is {
					beats = append(beats, strings.TrimSpace(data))
				}
			case <-time.After(beat + 100*time.Millisecond):
				require.Fail(t, "nothing has come")
			}
		}
		assert.Contains(t, beats, "18", "so old is what was told last")
		leave()
		<-ended
	})
}

// stuck is a client that reads nothing.
type stuck struct {
	*httptest.ResponseRecorder
	left context.Context //nolint:containedctx // the life of the client
}

func (w stuck) Write(text []byte) (int, error) {
	<-w.left.Done()
	return 0, w.left.Err()
}

func TestAListIsReadByAFewAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		for i := range 100 {
			s.locks = append(s.locks, held(fmt.Sprint("l", i, `"locks": []`), "\u009b2J\u202e me"))
		}
		d := open(t, s, settings{})
		body := get(t, d, "/api/v1/list")
		var list survey.Listing
		require.NoError(t, json.Unmarshal([]byte(body), &list))
		assert.Len(t, list.Locks, 100)
		var whole bytes.Buffer
		require.NoError(t, prose.WriteJSON(&whole, list))
		assert.Equal(t, whole.String(), body, "as the command prints it")

		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan struct{})
		for range mostReading {
			go func() {
				r := httptest.NewRequest("GET", "/api/v1/list", nil)
				r = r.WithContext(local(r.Context()))
				r.Host = "localhost"
				d.ServeHTTP(stuck{httptest.NewRecorder(), ctx}, r)
				ended <- struct{}{}
			}()
		}
		synctest.Wait()
		w := do(d, "GET", "/api/v1/list")
		assert.Equal(t, http.StatusServiceUnavailable, w.Code)
		assert.Contains(t, w.Body.String(), `"error":`)
		assert.Equal(t, http.StatusOK, do(d, "GET", "/api/v1/inspect?name=x").Code, "what is small is not held up")
		leave()
		for range mostReading {
			<-ended
		}
		assert.Equal(t, http.StatusOK, do(d, "GET", "/api/v1/list").Code)
	})
}
