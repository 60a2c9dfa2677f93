package main

import (
	"bytes"
	"image/color"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The sizes of a chart, in points.
const (
	width       vg.Length = 620
	height      vg.Length = 340
	legendWidth vg.Length = 165 // right of the data, which it never covers
	margin      vg.Length = 8
	dotSize     vg.Length = 3.5
	textSize              = 10
	titleSize             = 12
)

// The colours are those of Okabe and Ito, which colour-blind readers can tell apart. Glyphs and
// dashes tell the same.
var (
	blue   = color.NRGBA{0x00, 0x72, 0xb2, 0xff}
	orange = color.NRGBA{0xd5, 0x5e, 0x00, 0xff}
	purple = color.NRGBA{0xcc, 0x79, 0xa7, 0xff}
	green  = color.NRGBA{0x00, 0x9e, 0x73, 0xff}
	yellow = color.NRGBA{0xe6, 0x9f, 0x00, 0xff}
	black  = color.NRGBA{0x00, 0x00, 0x00, 0xff}
	faint  = color.NRGBA{0xdd, 0xdd, 0xdd, 0xff}
)

// style is how a peer looks in every chart.
type style struct {
	prefix string // of its name
	color  color.Color
	dashes []vg.Length
	glyph  draw.GlyphDrawer
}

// styles are looked up from the first to the last.
var styles = []style{
	{"redquorum", blue, nil, draw.CircleGlyph{}},
	{"redsync-redigo", orange, nil, draw.PyramidGlyph{}},
	{"redsync-goredis-tuned", purple, []vg.Length{6, 3}, draw.BoxGlyph{}},
	{"redsync-goredis", purple, nil, draw.SquareGlyph{}},
	{"redsync-rueidis-failfast", yellow, nil, draw.TriangleGlyph{}},
	{"redsync-rueidis-", green, []vg.Length{6, 3}, draw.TriangleGlyph{}},
	{"redsync-rueidis", green, nil, draw.PlusGlyph{}},
	{"redislock", yellow, nil, draw.CrossGlyph{}},
	{"", black, []vg.Length{1.5, 3}, draw.RingGlyph{}}, // the limit
}

func styleOf(peer string) style {
	for _, s := range styles {
		if strings.HasPrefix(peer, s.prefix) {
			return s
		}
	}
	panic("chart: the last style has no prefix")
}

func (s *style) line() draw.LineStyle {
	return draw.LineStyle{Color: s.color, Width: vg.Points(1.5), Dashes: s.dashes}
}

func (s *style) dot() draw.GlyphStyle {
	return draw.GlyphStyle{Color: s.color, Radius: dotSize, Shape: s.glyph}
}

// thumbnail is a line with a glyph, in the legend.
func (s *style) thumbnail() []plot.Thumbnailer {
	return []plot.Thumbnailer{
		&plotter.Line{LineStyle: s.line()},
		&plotter.Scatter{GlyphStyle: s.dot()},
	}
}

// sans is a font that every machine has, or one of the same widths.
func sans(size font.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

// newPlot returns an empty plot with a grid.
func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.TextStyle.Font, p.Title.Padding = sans(titleSize), vg.Points(6)
	for _, s := range []*text.Style{
		&p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label,
	} {
		s.Font = sans(textSize)
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = faint, faint
	p.Add(grid)
	return p
}

func newLegend() plot.Legend {
	legend := plot.NewLegend()
	legend.TextStyle.Font = sans(textSize)
	legend.Top, legend.Left = true, true
	legend.ThumbnailWidth, legend.Padding = vg.Points(26), vg.Points(3)
	return legend
}

// peersLegend has a line for each peer.
func peersLegend(peers []string) plot.Legend {
	legend := newLegend()
	for _, peer := range peers {
		s := styleOf(peer)
		legend.Add(peer, s.thumbnail()...)
	}
	return legend
}

// toSVG draws rows of plots, with the legend at the right.
func toSVG(plots [][]*plot.Plot, legend plot.Legend, height vg.Length) ([]byte, error) {
	canvas := vgsvg.New(width, height)
	whole := draw.New(canvas)
	whole.FillPolygon(color.White, []vg.Point{{}, {X: width}, {X: width, Y: height}, {Y: height}})
	area := draw.Crop(whole, margin, -legendWidth-margin, margin, -margin)
	tiles := draw.Tiles{Rows: len(plots), Cols: len(plots[0]), PadX: 2 * margin, PadY: margin}
	for i, row := range plot.Align(plots, tiles, area) {
		for j, tile := range row {
			plots[i][j].BackgroundColor = color.White
			plots[i][j].Draw(tile)
		}
	}
	legend.Draw(draw.Crop(whole, width-legendWidth, 0, margin, -3*margin))
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return nil, err
	}
	// The widths are those of Liberation Sans, and of Arial and Helvetica.
	return bytes.ReplaceAll(svg.Bytes(), []byte("font-family:Liberation Sans;"),
		[]byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;")), nil
}
