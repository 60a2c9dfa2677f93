package main

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/redquorum/redquorum/bench/versus/figures"
)

// point is a figure at a place of the other axis.
type point struct {
	at     float64
	figure figures.Figure
	scale  float64 // what the figure is multiplied by
}

// points are of one peer. Their figures are on the Y axis.
type points []point

// Len implements plotter.XYer.
func (p points) Len() int { return len(p) }

// XY implements plotter.XYer.
func (p points) XY(i int) (x, y float64) { return p[i].at, p[i].figure.Median * p[i].scale }

// YError implements plotter.YErrorer: the lowest and the highest of the rounds.
func (p points) YError(i int) (low, high float64) {
	f := p[i].figure
	return (f.Median - f.Lowest) * p[i].scale, (f.Highest - f.Median) * p[i].scale
}

// addLine adds the points with a line through them, and bars from the lowest to the highest round.
func addLine(p *plot.Plot, s style, all points) error {
	line, dots, err := plotter.NewLinePoints(all)
	if err != nil {
		return err
	}
	line.LineStyle, dots.GlyphStyle = s.line(), s.dot()
	bars, err := plotter.NewYErrorBars(all)
	if err != nil {
		return err
	}
	bars.Color, bars.Width, bars.CapWidth = s.color, vg.Points(0.7), 2*dotSize
	p.Add(line, bars, dots)
	return nil
}

// rowsOf returns the points of a peer, by the sizes of its rows.
func rowsOf(e *figures.Experiment, peer, value string, scale float64) (all points) {
	for _, row := range e.Rows {
		if f, found := row.Values[value]; found && row.Peer == peer {
			all = append(all, point{float64(row.Size), f, scale})
		}
	}
	return all
}

// ticksAt returns ticks at the sizes.
func ticksAt(sizes []int) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for _, size := range sizes {
		ticks = append(ticks, plot.Tick{Value: float64(size), Label: figures.Grouped(float64(size), 0)})
	}
	return ticks
}
