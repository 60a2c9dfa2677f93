package main

import (
	"fmt"
	"strings"
)

// palette is the colors of a picture. The background is that of the page.
type palette struct {
	text, muted, line    string
	lock, lockFill       string // the validity of the lock
	key, keyFill         string // a key at a master
	granted, late, wrong string // votes
}

var themes = map[string]palette{
	"light": {
		text: "#1f2328", muted: "#59636e", line: "#d1d9e0",
		lock: "#1a7f37", lockFill: "#aceebb",
		key: "#54aeff", keyFill: "#ddf4ff",
		granted: "#1a7f37", late: "#9a6700", wrong: "#cf222e",
	},
	"dark": {
		text: "#f0f6fc", muted: "#9198a1", line: "#3d444d",
		lock: "#3fb950", lockFill: "#1b4d2b",
		key: "#388bfd", keyFill: "#12233f",
		granted: "#3fb950", late: "#d29922", wrong: "#f85149",
	},
}

// The places of the picture. Time goes from left to right, and is not to scale.
const (
	width, height = 900, 372
	laneLeft      = 128
	laneRight     = 886
	client        = 66  // the lane of the process
	firstMaster   = 150 // and of the masters
	laneHeight    = 46
	bar           = 18
	notes         = 456

	start   = 170 // the first byte
	ttl     = 510
	drift   = 46
	verdict = 346
	expiry  = start + ttl - drift
)

// master is what happens at one master.
type master struct {
	name     string
	received int // when the SET arrives; 0: never
	answered int // when its answer is back
	note     string
}

var masters = []master{
	{"master a", 206, 252, "granted"},
	{"master b", 224, 296, "granted"},
	{"master c", 252, verdict, "granted"},
	{"master d", 330, 496, "slow: not waited for"},
	{"master e", 0, 0, "out of reach: not waited for"},
}

// drawing collects the elements of a picture.
type drawing struct {
	palette
	svg strings.Builder
}

// add adds an element.
func (d *drawing) add(format string, args ...any) { fmt.Fprintf(&d.svg, format+"\n", args...) }

// begin returns a picture without anything but its title.
func begin(colors palette, height int, title string) *drawing {
	d := &drawing{palette: colors}
	d.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" `+
		`font-family="-apple-system,'Segoe UI','Liberation Sans',Helvetica,Arial,sans-serif" font-size="14">`,
		width, height, width, height)
	d.add("<title>%s</title>", title)
	return d
}

// end returns the picture.
func (d *drawing) end(height int) string {
	d.label(laneRight, height-8, "end", d.muted, "time, not to scale")
	d.add("</svg>")
	return d.svg.String()
}

func drawRound(colors palette) string {
	d := begin(colors, height, "One round: three of five masters grant the lock, and it ends before any of them forgets it")
	d.lane("your process", client)
	for i, m := range masters {
		d.lane(m.name, firstMaster+i*laneHeight)
	}
	d.moment(start, "the clock starts before the first byte", "start")
	d.moment(expiry, "it ends before any master forgets", "middle")
	d.validity()
	for i, m := range masters {
		d.vote(m, firstMaster+i*laneHeight)
	}
	d.add(`<circle cx="%d" cy="%d" r="5" fill="%s"/>`, verdict, client, d.granted)
	return d.end(height)
}

// lane draws the line of a process or master.
func (d *drawing) lane(name string, y int) {
	d.label(14, y+5, "start", d.text, name)
	d.add(`<path d="M%d %dH%d" stroke="%s"/>`, laneLeft, y, laneRight, d.line)
}

// label writes text that begins, is in the middle, or ends at x.
func (d *drawing) label(x, y int, anchor, color, text string) {
	d.add(`<text x="%d" y="%d" text-anchor="%s" fill="%s">%s</text>`, x, y, anchor, color, text)
}

// moment draws a dashed line through all lanes, with what it is above.
func (d *drawing) moment(x int, text, anchor string) {
	d.add(`<path d="M%d %dV%d" stroke="%s" stroke-dasharray="4 4"/>`,
		x, client-28, firstMaster+4*laneHeight+18, d.muted)
	d.label(x, client-36, anchor, d.muted, text)
}

// validity draws the lock in the lane of the process.
func (d *drawing) validity() {
	top := client - bar/2
	d.add(`<rect x="%d" y="%d" width="%d" height="%d" fill="%s" stroke="%s"/>`,
		verdict, top, expiry-verdict, bar, d.lockFill, d.lock)
	d.add(`<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="%s" stroke-dasharray="3 3"/>`,
		expiry, top, drift, bar, d.muted)
	d.label((verdict+expiry)/2, client+5, "middle", d.text, "the lock is yours")
	d.label(expiry+drift+8, client+5, "start", d.muted, "clock drift")
	d.label(verdict+8, client+27, "start", d.granted, "3 of 5 granted")
}

// vote draws a SET and its answer, and the key that it leaves.
func (d *drawing) vote(m master, y int) {
	if m.received == 0 {
		d.add(`<path d="M%d %dL%d %d" stroke="%s" fill="none"/>`, start, client, 262, y-6, d.line)
		d.add(`<path d="M%d %dl12 12m0 -12l-12 12" stroke="%s" stroke-width="2"/>`, 257, y-6, d.wrong)
		d.label(282, y-8, "start", d.wrong, m.note)
		return
	}
	color := d.granted
	if m.answered > verdict {
		color = d.late
	}
	end := min(m.received+ttl, laneRight)
	d.add(`<rect x="%d" y="%d" width="%d" height="%d" fill="%s" stroke="%s"/>`,
		m.received, y-bar/2, end-m.received, bar, d.keyFill, d.key)
	d.add(`<path d="M%d %dL%d %d" stroke="%s" fill="none"/>`, start, client, m.received, y, d.muted)
	d.add(`<path d="M%d %dL%d %d" stroke="%s" stroke-width="1.5" fill="none"/>`,
		m.received, y, m.answered, client+bar/2, color)
	d.label(notes, y+5, "start", d.text, m.note)
	d.label(end-8, y+5, "end", d.muted, "key")
}
