package dashboard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/guard"
)

const (
	// mostStreams is how many pages are kept up to date at a time. Others are shown once.
	mostStreams = 100

	// beat is after how long without news the page is told that this process lives.
	beat = 3 * time.Second

	// writeTimeout bounds the writing of an event: until then, a client has read the one before.
	writeTimeout = 10 * time.Second
)

// stream sends the content of a page whenever it has changed, as server-sent events. Each is a JSON
// string of HTML.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request, v *view) {
	shown, err := h.subjects(v, r.URL.Query())
	if err != nil {
		guard.Text(w, refusal(err), err.Error()+"\n")
		return
	}
	select {
	case h.streams <- struct{}{}:
		defer func() { <-h.streams }()
	default:
		guard.Text(w, http.StatusServiceUnavailable, "Too many pages are open.\n")
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx
	control := http.NewResponseController(w)
	// A stream outlives the bounds of a request. A test's writer has none.
	_ = control.SetReadDeadline(time.Time{}) //nolint:errcheck // see above
	send := func(format string, args ...any) bool {
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) //nolint:errcheck,forbidigo // see above; the clock of sockets is that of package time
		_, err := fmt.Fprintf(w, format, args...)
		return err == nil && control.Flush() == nil
	}
	var last []byte
	told := h.watch.clock.Now()
	for ok := send("retry: 2000\n\n"); ok; {
		s, changed, err := h.watch.want(shown...)
		if err != nil {
			return // the client tries again
		}
		if !s.at.IsZero() {
			content := h.render(r, v, s)
			if !bytes.Equal(content, last) {
				last, told = content, h.watch.clock.Now()
				ok = send("data: %s\n\n", content)
			}
		}
		quiet, timer := clock.After(h.watch.clock, told.Add(beat).Sub(h.watch.clock.Now()))
		select {
		case <-changed:
		case <-quiet:
			// How old the news is: the page is live only if the masters answer as well.
			told = h.watch.clock.Now()
			ok = send("event: beat\ndata: %d\n\n", h.watch.age()/time.Second)
		case <-h.watch.done:
			timer.Stop()
			return
		case <-r.Context().Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// render returns the content of a page as a JSON string.
func (h *Handler) render(r *http.Request, v *view, s *snapshot) []byte {
	var content, line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false) // no script reads it as a part of a page
	err := templates().ExecuteTemplate(&content, "main", h.make(r, v, s))
	if err := errors.Join(err, encoder.Encode(content.String())); err != nil {
		panic(err) // our templates and strings always work
	}
	return bytes.TrimSpace(line.Bytes())
}
