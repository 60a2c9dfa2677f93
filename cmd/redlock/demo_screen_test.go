package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redquorum/redquorum/pool"
)

func TestLineIsCutToTheWidth(t *testing.T) {
	line := []span{{"abc", ""}, {"défg", red}, {"h", ""}}
	for _, c := range []struct {
		width int
		color bool
		want  string
	}{
		{80, false, "abcdéfgh"},
		{80, true, "abc\x1b[31mdéfg\x1b[0mh"},
		{5, true, "abc\x1b[31mdé\x1b[0m"},
		{3, true, "abc"},
		{0, true, ""},
	} {
		if got := drawLine(line, c.width, c.color); got != c.want {
			t.Errorf("width %d, color %v: got %q, want %q", c.width, c.color, got, c.want)
		}
	}
}

func TestFrameOverwritesAndNeverScrolls(t *testing.T) {
	lines := [][]span{{{"one", ""}}, {}, {{"three", ""}}}
	if got, want := drawFrame(lines, 80, 24, false), "\x1b[Hone\x1b[K\r\n\x1b[K\r\nthree\x1b[K\x1b[J"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := drawFrame(lines, 80, 1, false), "\x1b[Hone\x1b[K\x1b[J"; got != want {
		t.Errorf("got %q of a screen of one line, want %q", got, want)
	}
}

func TestLiveViewShowsLocksAndNodes(t *testing.T) {
	v := &liveView{endpoints: []string{"redis://a:1", "redis://b:2"}}
	v.changed(change{at: time.Second, node: 1})
	lines := v.lines(snapshot{
		elapsed: 1200 * time.Millisecond, total: 10 * time.Second,
		locks: []nameState{{name: "orders", worker: 7, held: 12 * time.Millisecond, times: 5}, {name: "reports"}},
		nodes: []nodeState{
			{endpoint: "redis://a:1", state: pool.Up},
			{endpoint: "redis://b:2", state: pool.Down, reason: "connection refused"},
		},
	})
	frame := drawFrame(lines, 80, 24, false)
	for _, want := range []string{
		"1.2 of 10.0 s", "orders     worker 7       12.0 ms         5", "reports    free",
		"1 redis://a:1  up", "2 redis://b:2  down: connection refused", "1.0 s  node 2 (redis://b:2) stopped",
	} {
		if !strings.Contains(frame, want) {
			t.Errorf("got %q, want %q in it", frame, want)
		}
	}
}

func TestLiveViewGivesTheScreenBack(t *testing.T) {
	var out bytes.Buffer
	v := &liveView{
		out: &output{w: &out}, look: func() snapshot { return snapshot{} },
		screen: &screen{size: func() (int, int) { return 80, 24 }},
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v.run(ctx)
	if got := out.String(); !strings.HasPrefix(got, enterScreen) || !strings.HasSuffix(got, leaveScreen) {
		t.Errorf("got %q, want it to begin with %q and end with %q", got, enterScreen, leaveScreen)
	}
}

func TestReasonOfTheSystemIsShownWithoutAddresses(t *testing.T) {
	refused := fmt.Errorf("dial tcp 127.0.0.1:1: %w", &fs.PathError{Op: "connect", Err: syscall.ECONNREFUSED})
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{refused, syscall.ECONNREFUSED.Error()},
		{errors.New("AUTH: WRONGPASS"), "AUTH: WRONGPASS"},
	} {
		if got := shortReason(c.err); got != c.want {
			t.Errorf("%v: got %q, want %q", c.err, got, c.want)
		}
	}
}

func TestBufferIsNoScreen(t *testing.T) {
	if screenOf(&bytes.Buffer{}) != nil {
		t.Error("got a screen")
	}
}
