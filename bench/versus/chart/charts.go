package main

import (
	"bytes"
	"cmp"
	"fmt"
	"image/color"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
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

// series are the medians of each peer, in the order of the lines: of those with the key among their
// parts, by its value.
func series(lines []line, key, unit string) (peers []string, medians map[string]plotter.XYs) {
	values := make(map[string]map[float64][]float64)
	for _, l := range lines {
		at, err := strconv.ParseFloat(l.parts[key], 64)
		if err != nil {
			continue
		}
		peer := l.parts["peer"]
		if values[peer] == nil {
			peers, values[peer] = append(peers, peer), make(map[float64][]float64)
		}
		values[peer][at] = append(values[peer][at], l.values[unit])
	}
	medians = make(map[string]plotter.XYs)
	for peer, by := range values {
		for _, at := range slices.Sorted(maps.Keys(by)) {
			medians[peer] = append(medians[peer], plotter.XY{X: at, Y: median(by[at])})
		}
	}
	return peers, medians
}

// drawThroughput draws the first page's chart, which is the one that makes a curve. Other
// benchmarks have their tables.
func drawThroughput(lines []line) ([]byte, error) {
	lines = slices.DeleteFunc(slices.Clone(lines), func(l line) bool { return l.name != "Lock" || l.parts["nodes"] != "5" })
	p := newPlot("Lock and unlock: throughput", "goroutines", "thousand locks per second")
	peers, medians := series(lines, "goroutines", "locks/s")
	var curves []any
	var ticks plot.ConstantTicks
	for _, peer := range peers {
		ticks = nil
		for i := range medians[peer] {
			point := &medians[peer][i]
			point.Y /= 1000
			ticks = append(ticks, plot.Tick{Value: point.X, Label: fmt.Sprint(point.X)})
		}
		curves = append(curves, peer, medians[peer])
	}
	if err := plotutil.AddLinePoints(p, curves...); err != nil {
		return nil, err
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
func drawRecovery(lines []line) ([]byte, error) {
	locks := newPlot("Through faults: locks, and the longest waits", "", "locks per second")
	waits := newPlot("", "seconds", "longest wait, ms, logarithmic")
	phases := phasesOf(lines)
	locks.Add(faults{phases, true})
	waits.Add(faults{phases, false})
	peers, locked := series(lines, "at", "locks/s")
	_, waited := series(lines, "at", "longest-wait-ms")
	var curves, waitCurves []any
	most, last := 0.0, 0.0
	for _, peer := range peers {
		for i := range locked[peer] {
			point, wait := &locked[peer][i], &waited[peer][i]
			point.X, wait.X, wait.Y = point.X+0.5, wait.X+0.5, max(wait.Y, leastWait)
			most, last = max(most, point.Y), max(last, point.X+0.5)
		}
		curves, waitCurves = append(curves, locked[peer]), append(waitCurves, peer, waited[peer])
	}
	if err := plotutil.AddLines(locks, curves...); err != nil {
		return nil, err
	}
	if err := plotutil.AddLines(waits, waitCurves...); err != nil {
		return nil, err
	}
	locks.Y.Min, locks.Y.Max = 0, most*roomForTitles
	waits.Y.Scale, waits.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	for _, p := range []*plot.Plot{locks, waits} {
		p.X.Min, p.X.Max, p.X.Tick.Marker = 0, last, everyTen
	}
	return toSVG(height*3/2, locks, waits)
}

// phase is a time of the course in which something is wrong.
type phase struct {
	from, to float64 // in seconds
	title    string
}

// phasesOf reads the phases from the lines of the first peer, as "08-15_one_killed".
func phasesOf(lines []line) (all []phase) {
	for _, l := range lines {
		times, title, _ := strings.Cut(l.parts["phase"], "_")
		var p phase
		if _, err := fmt.Sscanf(times, "%f-%f", &p.from, &p.to); err == nil {
			p.title = strings.ReplaceAll(title, "_", " ")
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b phase) int { return cmp.Compare(a.from, b.from) })
	return slices.Compact(all)
}

// everyTen has a tick every ten seconds.
var everyTen = plot.TickerFunc(func(low, high float64) (ticks []plot.Tick) {
	for at := math.Ceil(low/10) * 10; at <= high; at += 10 {
		ticks = append(ticks, plot.Tick{Value: at, Label: fmt.Sprint(at)})
	}
	return ticks
})

// faults shades phases, and writes their titles at the top, if there is room for them.
type faults struct {
	phases []phase
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
		from, to := x(phase.from), x(phase.to)
		c.FillPolygon(shade, []vg.Point{{X: from, Y: c.Min.Y}, {X: to, Y: c.Min.Y}, {X: to, Y: c.Max.Y}, {X: from, Y: c.Max.Y}})
		c.StrokeLine2(draw.LineStyle{Color: color.White, Width: vg.Points(1)}, from, c.Min.Y, from, c.Max.Y)
		if f.titled {
			c.FillText(title, vg.Point{X: (from + to) / 2, Y: c.Max.Y - titleLength}, phase.title)
		}
	}
}
