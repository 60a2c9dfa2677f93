package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redquorum/redquorum/pool"
)

const liveInterval = 200 * time.Millisecond

// liveView draws the state on a terminal, a few times per second.
type liveView struct {
	out       *output
	screen    *screen
	endpoints []string
	look      func() snapshot

	mu      sync.Mutex // guards the fields below
	changes []change
}

func (v *liveView) changed(c change) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.changes = append(v.changes, c)
}

// run draws until ctx ends; then the screen is as it was, and what happened is written there as lines.
func (v *liveView) run(ctx context.Context) {
	v.out.print(enterScreen)
	defer v.leave()
	ticker := time.NewTicker(liveInterval)
	defer ticker.Stop()
	for {
		width, height := v.screen.size()
		v.out.print(drawFrame(v.lines(v.look()), width, height, v.screen.color))
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (v *liveView) leave() {
	v.out.print(leaveScreen)
	for _, line := range v.history() {
		v.out.print(line[0].text + "\n")
	}
}

func (v *liveView) history() (lines [][]span) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.changes {
		lines = append(lines, []span{{fmt.Sprintf("%7s  %s", showSeconds(c.at), changeText(c, v.endpoints[c.node])), ""}})
	}
	return lines
}

func (v *liveView) lines(s snapshot) [][]span {
	blank := []span{}
	lines := [][]span{
		{{"redlock demo", bold}, {fmt.Sprintf("   %.1f of %s", s.elapsed.Seconds(), showSeconds(s.total)), dim}},
		{{s.title, dim}},
		blank,
		{{fmt.Sprintf("  %-10s %-12s %9s %9s", "lock", "held by", "for", "times"), dim}},
	}
	for _, l := range s.locks {
		lines = append(lines, lockLine(l))
	}
	lines = append(lines, blank, []span{{fmt.Sprintf("  %-*s  state", endpointWidth(s.nodes)+3, "node"), dim}})
	for i, n := range s.nodes {
		lines = append(lines, nodeLine(i, n, endpointWidth(s.nodes)))
	}
	lines = append(lines, blank, countsLine(s.counts), blank)
	return append(lines, v.history()...)
}

func lockLine(l nameState) []span {
	line := []span{{fmt.Sprintf("  %-10s ", l.name), ""}}
	if l.worker == 0 {
		line = append(line, span{fmt.Sprintf("%-12s %9s", "free", ""), dim})
	} else {
		line = append(line, span{fmt.Sprintf("worker %-5d", l.worker), ""}, span{fmt.Sprintf(" %9s", showDuration(l.held)), ""})
	}
	return append(line, span{fmt.Sprintf(" %9d", l.times), ""})
}

func nodeLine(i int, n nodeState, width int) []span {
	line := []span{{fmt.Sprintf("  %2d %-*s  ", i+1, width, n.endpoint), ""}}
	switch n.state {
	case pool.Up:
		return append(line, span{"up", green})
	case pool.Down:
		return append(line, span{"down: " + n.reason, red})
	case pool.Connecting, pool.Closed:
		return append(line, span{n.state.String(), yellow})
	default:
		panic("unknown state of a node: " + n.state.String())
	}
}

func countsLine(c counts) []span {
	bad := style("")
	if c.lost+c.failed > 0 {
		bad = red
	}
	return []span{
		{fmt.Sprintf("  acquired %-7d refused %-7d gave up %-4d ", c.acquired, c.refused, c.gaveUp), ""},
		{fmt.Sprintf("lost %-4d errors %-4d", c.lost, c.failed), bad},
	}
}

func endpointWidth(nodes []nodeState) (width int) {
	for _, n := range nodes {
		width = max(width, len(n.endpoint))
	}
	return width
}
