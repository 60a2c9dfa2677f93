package main

import (
	"bytes"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/redquorum/redquorum/bench/versus/figures"
)

// The sizes of a chart, in points.
const (
	width    vg.Length = 620
	height   vg.Length = 340
	margin   vg.Length = 8
	textSize           = 10
)

// The colours are those of Okabe and Ito, which colour-blind readers can tell apart. Glyphs and
// dashes tell the same.
func init() {
	plotutil.DefaultColors = []color.Color{
		color.NRGBA{0x00, 0x72, 0xb2, 0xff},
		color.NRGBA{0xd5, 0x5e, 0x00, 0xff},
		color.NRGBA{0x00, 0x9e, 0x73, 0xff},
		color.NRGBA{0xcc, 0x79, 0xa7, 0xff},
		color.NRGBA{0xe6, 0x9f, 0x00, 0xff},
		color.NRGBA{0x56, 0xb4, 0xe9, 0xff},
		color.Black,
	}
}

// newPlot returns an empty plot with a grid, and room for its legend at the top left.
func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	for _, s := range []*text.Style{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		s.Font.Variant, s.Font.Size = "Sans", textSize
	}
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.ThumbnailWidth, p.Legend.Padding = vg.Points(26), vg.Points(3)
	p.Add(plotter.NewGrid())
	return p
}

// toSVG draws plots, one below the other.
func toSVG(height vg.Length, plots ...*plot.Plot) ([]byte, error) {
	canvas := vgsvg.New(width, height)
	whole := draw.New(canvas)
	whole.FillPolygon(color.White, []vg.Point{{}, {X: width}, {X: width, Y: height}, {Y: height}})
	var rows [][]*plot.Plot
	for _, p := range plots {
		rows = append(rows, []*plot.Plot{p})
	}
	tiles := draw.Tiles{Rows: len(rows), Cols: 1, PadY: margin}
	for i, row := range plot.Align(rows, tiles, draw.Crop(whole, margin, -margin, margin, -margin)) {
		plots[i].Draw(row[0])
	}
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return nil, err
	}
	// The widths are those of Liberation Sans, and of Arial and Helvetica.
	return bytes.ReplaceAll(svg.Bytes(), []byte("font-family:Liberation Sans;"),
		[]byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;")), nil
}

// drawThroughput draws the first page's chart, which is the one that makes a curve. Other
// experiments have their tables.
func drawThroughput(e *figures.Experiment) ([]byte, error) {
	p := newPlot("Lock and unlock: throughput", "goroutines", "thousand locks per second")
	var lines []any
	for _, peer := range e.Peers() {
		var points plotter.XYs
		for _, size := range e.Sizes() {
			if f, found := e.Value(peer, "", size, figures.LocksPerSecond); found {
				points = append(points, plotter.XY{X: float64(size), Y: f.Median / 1000})
			}
		}
		lines = append(lines, peer, points)
	}
	if err := plotutil.AddLinePoints(p, lines...); err != nil {
		return nil, err
	}
	var ticks plot.ConstantTicks
	for _, size := range e.Sizes() {
		ticks = append(ticks, plot.Tick{Value: float64(size), Label: figures.Grouped(float64(size), 0)})
	}
	p.X.Scale, p.X.Tick.Marker, p.Y.Min = plot.LogScale{}, ticks, 0
	return toSVG(height, p)
}

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
	var lines, waitLines []any
	most := 0.0
	for _, c := range r.Courses {
		run := c.Middle()
		lines, waitLines = append(lines, course(r, run.Locks, 0)), append(waitLines, c.Peer, course(r, run.Waits, leastWait))
		most = max(most, slices.Max(run.Locks))
	}
	if err := plotutil.AddLines(locks, lines...); err != nil {
		return nil, err
	}
	if err := plotutil.AddLines(waits, waitLines...); err != nil {
		return nil, err
	}
	locks.Y.Min, locks.Y.Max = 0, most*roomForTitles
	waits.Y.Scale, waits.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	for _, p := range []*plot.Plot{locks, waits} {
		p.X.Min, p.X.Max = 0, r.Phases[len(r.Phases)-1].To
		p.X.Tick.Marker = everyTen
	}
	return toSVG(height*3/2, locks, waits)
}

// course returns the values of all moments.
func course(r *figures.Recovery, values []float64, least float64) plotter.XYs {
	points := make(plotter.XYs, len(values))
	for i, value := range values {
		points[i] = plotter.XY{X: (float64(i) + 0.5) * r.Step, Y: max(value, least)}
	}
	return points
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
	small := p.Legend.TextStyle.Font
	small.Size *= 0.8
	title := text.Style{
		Color: color.Black, Font: small, Rotation: math.Pi / 2, YAlign: text.YCenter,
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
