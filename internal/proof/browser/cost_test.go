package browser

import (
	"context"
	"flag"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
)

// measure is how long each page of TestWhatAPageCosts is open.
var measure = flag.Duration("measure", 0, "count for so `long` what each page costs a master")

// executed returns how many commands a master has executed, those of scripts included.
func executed(t *testing.T, m cluster.Master) int {
	t.Helper()
	reply, err := m.Do("INFO", "stats")
	require.NoError(t, err)
	_, text, _ := strings.Cut(string(reply.([]byte)), "total_commands_processed:")
	count, _, _ := strings.Cut(text, "\r")
	n, err := strconv.Atoi(count)
	require.NoError(t, err)
	return n
}

// TestWhatAPageCosts prints the figures of docs/dashboard.md. What bounds them is tested in
// package dashboard, in virtual time.
func TestWhatAPageCosts(t *testing.T) {
	if *measure == 0 {
		t.Skip("figures of one machine: give -measure 30s for them")
	}
	w := open(t, 3)
	w.fill(10)
	require.NoError(t, w.locker.Close()) // it would count, too
	get := func(ctx context.Context, path string) (first time.Duration, size int) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+path, nil)
		require.NoError(t, err)
		began := time.Now()
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer response.Body.Close()
		first = time.Since(began)
		body, err := io.ReadAll(response.Body) // a stream ends with ctx
		require.True(t, err == nil || ctx.Err() != nil, err)
		return first, len(body)
	}
	count := func(what, path string) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second+*measure)
		defer cancel()
		go get(ctx, path)
		time.Sleep(time.Second)
		before, began := executed(t, w.Masters[0]), time.Now()
		time.Sleep(*measure)
		t.Logf("%s: %.0f commands per second", what, float64(executed(t, w.Masters[0])-before)/time.Since(began).Seconds())
	}
	for _, path := range []string{"masters", "locks", "lock?name=job/1", "members", "elections", "log"} {
		count(path, "live/"+path)
	}
	count("nobody looks", "healthz")
	w.fill(10_000)
	for _, path := range []string{"locks", "locks", "locks?page=100&sort=left"} {
		first, size := get(t.Context(), path)
		t.Logf("%s of 10,000: first byte after %v, %d bytes", path, first, size)
	}
	count("10,000 locks", "live/locks")
}
