package main

import (
	"gonum.org/v1/plot"

	"github.com/redquorum/redquorum/bench/versus/figures"
)

// charts are of the experiments whose figures make a curve. The others have their tables.
var charts = map[string]func(*figures.Experiment) ([]byte, error){
	figures.Throughput: drawThroughput,
	figures.Nodes:      drawNodes,
}

func drawThroughput(e *figures.Experiment) ([]byte, error) {
	p := newPlot("Lock and unlock: throughput", "goroutines", "thousand locks per second")
	for _, peer := range e.Peers() {
		if err := addLine(p, styleOf(peer), rowsOf(e, peer, figures.LocksPerSecond, 1e-3)); err != nil {
			return nil, err
		}
	}
	p.Y.Min = 0
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, ticksAt(e.Sizes())
	return toSVG([][]*plot.Plot{{p}}, peersLegend(e.Peers()), height)
}

func drawNodes(e *figures.Experiment) ([]byte, error) {
	var plots []*plot.Plot
	for _, panel := range []struct{ title, value string }{
		{"client CPU, µs", figures.ClientCPU}, {"servers' CPU, µs", figures.ServerCPU}, {"p50 of one goroutine, µs", figures.P50},
	} {
		p := newPlot(panel.title, "servers", "")
		p.Title.TextStyle.Font = sans(textSize)
		for _, peer := range e.Peers() {
			if all := rowsOf(e, peer, panel.value, 1); len(all) > 0 {
				if err := addLine(p, styleOf(peer), all); err != nil {
					return nil, err
				}
			}
		}
		p.Y.Min = 0
		p.X.Tick.Marker = ticksAt(e.Sizes())
		plots = append(plots, p)
	}
	return toSVG([][]*plot.Plot{plots}, peersLegend(e.Peers()), height*3/4)
}
