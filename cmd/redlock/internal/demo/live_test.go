package demo

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
)

func TestLiveViewDrawsPictureAndEvents(t *testing.T) {
	v := &liveView{title: "redlock demo", total: 4 * time.Second}
	tr := story()
	tr.events = []event{{time.Second, "node 2 stopped"}}
	frame := terminal.Frame(v.lines(tr, 80), 80, 24, false)
	for _, want := range []string{"2.0 of 4.0 s, acquired 5 times", "   worker 3  ", "nodes up  5555", "  1.0 s  node 2 stopped"} {
		if !strings.Contains(frame, want) {
			t.Errorf("got %q, want %q in it", frame, want)
		}
	}
}

func TestLiveViewGivesTheScreenBack(t *testing.T) {
	var out bytes.Buffer
	v := &liveView{out: &output{w: &out}, now: func() trace { return trace{} }, look: wide}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v.run(ctx)
	if got := out.String(); !strings.HasPrefix(got, terminal.EnterScreen) || !strings.HasSuffix(got, terminal.LeaveScreen) {
		t.Errorf("got %q, want it to begin with %q and end with %q", got, terminal.EnterScreen, terminal.LeaveScreen)
	}
}
