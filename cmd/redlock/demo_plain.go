package main

import (
	"context"
	"fmt"
	"time"
)

const plainInterval = time.Second

// plainView writes a line when something happens, and one per second.
type plainView struct {
	out       *output
	endpoints []string
	look      func() snapshot
}

func (v *plainView) run(ctx context.Context) {
	ticker := time.NewTicker(plainInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s := v.look()
			v.line(s.elapsed, fmt.Sprintf("%d of %d nodes up   %s", countUp(s.nodes), len(s.nodes), countsText(s.counts)))
		}
	}
}

func (v *plainView) changed(c change) { v.line(c.at, changeText(c, v.endpoints[c.node])) }

func (v *plainView) line(at time.Duration, text string) {
	v.out.print(fmt.Sprintf("%7s  %s\n", showSeconds(at), text))
}
