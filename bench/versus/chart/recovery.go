package main

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/redquorum/redquorum/bench/versus/figures"
)

// shade is the background of a fault, through which the grid shows.
var shade = color.NRGBA{0x00, 0x00, 0x00, 0x14}

// leastWait is the lowest wait of the chart, in ms: the axis is logarithmic.
const leastWait = 0.1

// The titles of faults are above the lines. All begin at one height, as fonts differ in width.
const (
	titleLength   vg.Length = 76
	roomForTitles float64   = 1.8
)

// drawRecovery draws locks per second above the longest waits, over the seconds of the course.
func drawRecovery(r *figures.Recovery) ([]byte, error) {
	locks := newPlot("Through faults: locks, and the longest waits", "", "locks per second")
	waits := newPlot("", "seconds", "longest wait, ms, logarithmic")
	locks.Add(faults{r.Phases, true})
	waits.Add(faults{r.Phases, false})
	legend := newLegend()
	most := 0.0
	for _, c := range r.Courses {
		s := styleOf(c.Peer)
		legend.Add(c.Peer, &plotter.Line{LineStyle: s.line()})
		most = max(most, slices.Max(c.Locks))
		for _, panel := range []struct {
			plot   *plot.Plot
			values []float64
			least  float64
		}{{locks, c.Locks, 0}, {waits, c.Waits, leastWait}} {
			points := make(plotter.XYs, len(panel.values))
			for i, value := range panel.values {
				points[i] = plotter.XY{X: (float64(i) + 0.5) * r.Step, Y: max(value, panel.least)}
			}
			line, err := plotter.NewLine(points)
			if err != nil {
				return nil, err
			}
			line.LineStyle = s.line()
			line.Width = vg.Points(1.2)
			panel.plot.Add(line)
		}
	}
	locks.Y.Min, locks.Y.Max = 0, most*roomForTitles
	logarithmic(&waits.Y)
	for _, p := range []*plot.Plot{locks, waits} {
		p.X.Min, p.X.Max = 0, r.Phases[len(r.Phases)-1].To
		p.X.Tick.Marker = everyTen
	}
	return toSVG([][]*plot.Plot{{locks}, {waits}}, legend, height*3/2)
}

// logarithmic makes an axis logarithmic, with room at both ends and ticks at 1, 2 and 5.
func logarithmic(axis *plot.Axis) {
	axis.Scale = plot.LogScale{}
	axis.Min, axis.Max = axis.Min*0.8, axis.Max*1.25
	axis.Tick.Marker = plot.TickerFunc(func(low, high float64) (ticks []plot.Tick) {
		many := high/low > 1000
		for decade := math.Floor(math.Log10(low)); decade <= math.Ceil(math.Log10(high)); decade++ {
			for _, digit := range []float64{1, 2, 5} {
				value := digit * math.Pow(10, decade)
				if value < low || value > high {
					continue
				}
				tick := plot.Tick{Value: value}
				if digit == 1 || !many {
					tick.Label = figures.Grouped(value, max(0, -int(decade)))
				}
				ticks = append(ticks, tick)
			}
		}
		return ticks
	})
}

// everyTen has a tick every ten seconds.
var everyTen = plot.TickerFunc(func(low, high float64) (ticks []plot.Tick) {
	for at := math.Ceil(low/10) * 10; at <= high; at += 10 {
		ticks = append(ticks, plot.Tick{Value: at, Label: figures.Grouped(at, 0)})
	}
	return ticks
})

// faults shades phases with a fault, and writes their titles at the top, if there is room for them.
type faults struct {
	phases []figures.Phase
	titled bool
}

// Plot implements plot.Plotter.
func (f faults) Plot(c draw.Canvas, p *plot.Plot) {
	x, _ := p.Transforms(&c)
	title := text.Style{
		Color: black, Font: sans(textSize * 0.8), Rotation: math.Pi / 2, YAlign: text.YCenter,
		Handler: plot.DefaultTextHandler,
	}
	for _, phase := range f.phases {
		if phase.Title == figures.Calm {
			continue
		}
		from, to := x(phase.From), x(phase.To)
		c.FillPolygon(shade, []vg.Point{{X: from, Y: c.Min.Y}, {X: to, Y: c.Min.Y}, {X: to, Y: c.Max.Y}, {X: from, Y: c.Max.Y}})
		c.StrokeLine2(draw.LineStyle{Color: color.White, Width: vg.Points(1)}, from, c.Min.Y, from, c.Max.Y)
		if f.titled {
			c.FillText(title, vg.Point{X: (from + to) / 2, Y: c.Max.Y - titleLength}, phase.Title)
		}
	}
}

// describeRecovery has a row for each phase.
func describeRecovery(r *figures.Recovery) string {
	var out strings.Builder
	out.WriteString(image("Locks per second and longest waits through faults", "recovery"))
	out.WriteString(sentenceOf(r.Environment))
	fmt.Fprintf(&out, "One run of each peer: %s.\n\n| seconds |  |", r.Setup)
	for _, c := range r.Courses {
		fmt.Fprintf(&out, " %s, locks/s | longest wait, ms |", c.Peer)
	}
	out.WriteString("\n| ---: | --- |" + strings.Repeat(" ---: | ---: |", len(r.Courses)) + "\n")
	for _, phase := range r.Phases {
		fmt.Fprintf(&out, "| %g–%g | %s |", phase.From, phase.To, phase.Title)
		for _, c := range r.Courses {
			locks, wait := c.Of(phase, r.Step)
			fmt.Fprintf(&out, " %s | %s |", figures.Grouped(locks, 0), figures.Grouped(wait, 0))
		}
		out.WriteString("\n")
	}
	return out.String()
}
