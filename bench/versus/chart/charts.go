package main

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/redquorum/redquorum/bench/versus/figures"
)

// charts has a chart for each experiment but the one on a single server.
var charts = map[string]func(*figures.Experiment) ([]byte, error){
	figures.Throughput: drawThroughput,
	figures.Latency:    drawLatency,
	figures.Contention: drawContention,
	figures.Minority:   drawMinority,
	figures.Renewal:    drawRenewal,
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

// percentiles are the values of a latency, by their titles.
var percentiles = []struct{ title, value string }{
	{"p50", figures.P50}, {"p90", figures.P90}, {"p99", figures.P99}, {"p99.9", figures.P999},
}

func drawLatency(e *figures.Experiment) ([]byte, error) {
	p := newPlot("Lock and unlock: latency with one goroutine", "percentile", "µs, logarithmic")
	for _, peer := range e.Peers() {
		var all points
		for i, percentile := range percentiles {
			if f, found := e.Value(peer, "", 0, percentile.value); found {
				all = append(all, point{float64(i), f, 1})
			}
		}
		if err := addLine(p, styleOf(peer), all); err != nil {
			return nil, err
		}
	}
	var titles []string
	for _, percentile := range percentiles {
		titles = append(titles, percentile.title)
	}
	p.NominalX(titles...)
	logarithmic(&p.Y)
	return toSVG([][]*plot.Plot{{p}}, peersLegend(e.Peers()), height)
}

// shape is a value that has a glyph of its own, where the colour tells the peer.
type shape struct {
	title, value string
	glyph        draw.GlyphDrawer
}

// shapesLegend has a line for each shape.
func shapesLegend(shapes []shape) plot.Legend {
	legend := newLegend()
	for _, s := range shapes {
		legend.Add(s.title, &plotter.Scatter{GlyphStyle: draw.GlyphStyle{Color: black, Radius: dotSize, Shape: s.glyph}})
	}
	return legend
}

var waits = []shape{
	{"mean", figures.MeanWait, draw.CircleGlyph{}},
	{"p99", figures.P99Wait, draw.PyramidGlyph{}},
	{"longest", figures.LongestWait, draw.CrossGlyph{}},
}

func drawContention(e *figures.Experiment) ([]byte, error) {
	p := newPlot("One name that many want: waits", "ms, logarithmic", "")
	peers := e.Peers()
	for i, peer := range peers {
		for _, wait := range waits {
			f, found := e.Value(peer, "", 0, wait.value)
			if !found {
				continue
			}
			at := across{points{{float64(len(peers) - 1 - i), f, 1}}} // the first at the top
			bars, err := plotter.NewXErrorBars(at)
			if err != nil {
				return nil, err
			}
			bars.Color, bars.CapWidth = styleOf(peer).color, 2*dotSize
			if err := addDots(p, at, styleOf(peer).color, wait.glyph, bars); err != nil {
				return nil, err
			}
		}
	}
	var names []string
	for i := range peers {
		names = append(names, peers[len(peers)-1-i])
	}
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.5, float64(len(peers))-0.5
	logarithmic(&p.X)
	return toSVG([][]*plot.Plot{{p}}, shapesLegend(waits), height)
}

// addDots adds points without a line.
func addDots(p *plot.Plot, at plotter.XYer, c color.Color, glyph draw.GlyphDrawer, bars plot.Plotter) error {
	dots, err := plotter.NewScatter(at)
	if err != nil {
		return err
	}
	dots.GlyphStyle = draw.GlyphStyle{Color: c, Radius: dotSize, Shape: glyph}
	p.Add(bars, dots)
	return nil
}

var outagePercentiles = []shape{
	{"p50", figures.P50, draw.CircleGlyph{}},
	{"p99", figures.P99, draw.PyramidGlyph{}},
}

// besides is how far apart two peers are in one state, where the states are 1 apart.
const besides = 0.2

func drawMinority(e *figures.Experiment) ([]byte, error) {
	p := newPlot("Two of five servers: latency with one goroutine", "two of the servers are", "ms, logarithmic")
	peers, states := e.Peers(), e.States()
	for i, peer := range peers {
		for j, state := range states {
			for _, percentile := range outagePercentiles {
				f, found := e.Value(peer, state, 0, percentile.value)
				if !found {
					continue
				}
				at := points{{float64(j) + besides*(float64(i)-float64(len(peers)-1)/2), f, 1e-3}}
				bars, err := plotter.NewYErrorBars(at)
				if err != nil {
					return nil, err
				}
				bars.Color, bars.CapWidth = styleOf(peer).color, 2*dotSize
				if err := addDots(p, at, styleOf(peer).color, percentile.glyph, bars); err != nil {
					return nil, err
				}
			}
		}
	}
	p.NominalX(states...)
	p.X.Min, p.X.Max = -0.5, float64(len(states))-0.5
	logarithmic(&p.Y)
	legend := shapesLegend(outagePercentiles)
	for _, peer := range peers {
		legend.Add(peer, &plotter.Line{LineStyle: draw.LineStyle{Color: styleOf(peer).color, Width: vg.Points(4)}})
	}
	return toSVG([][]*plot.Plot{{p}}, legend, height)
}

func drawRenewal(e *figures.Experiment) ([]byte, error) {
	p := newPlot("Holding locks with a TTL of 30 s: CPU of the client", "locks held, logarithmic", "% of a core, logarithmic")
	for _, peer := range e.Peers() {
		if err := addLine(p, styleOf(peer), rowsOf(e, peer, figures.CoreShare, 1)); err != nil {
			return nil, err
		}
	}
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, ticksAt(e.Sizes())
	logarithmic(&p.Y)
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
