package main

// The places of the picture of a failover: what happens to a lock on a master with a replica, and
// to one on three masters. Time goes from left to right, and is not to scale.
const (
	failoverHeight = 566

	failoverTTL   = 490
	failoverDrift = 36

	setA    = 170 // A's first byte, above and below
	crash   = 330 // of a master that has A's key
	back    = 400 // when something answers in its place
	setB    = 470 // B's first byte
	reach   = 500 // when it arrives
	setLate = 712 // B's next attempt
)

// span is a time, from one place to another.
type span struct{ from, to int }

// Above: the lock on one master. Below: the lock on three.
var (
	singleA = span{232, setA + failoverTTL - failoverDrift}
	singleB = span{530, min(setB+failoverTTL-failoverDrift, laneRight)}

	keyAtA   = span{200, 200 + failoverTTL} // at the master that remembers
	quorumA  = span{246, setA + failoverTTL - failoverDrift}
	quorumB  = span{772, laneRight}
	noVote   = span{back, crash + failoverTTL + 40} // of the master that forgot, for MaxTTL
	attemptB = span{reach, 614}                     // its key, until it is undone
)

// The lanes.
const (
	singleTop = 84
	quorumTop = 336
)

func drawFailover(colors palette) string {
	d := begin(colors, failoverHeight, "A lock on a master with a replica has two holders after a failover; a lock on three masters has one")
	d.single()
	d.quorum()
	return d.end(failoverHeight)
}

// single draws the lock on one master.
func (d *drawing) single() {
	a, master, replica, b := singleTop, singleTop+laneHeight, singleTop+2*laneHeight, singleTop+3*laneHeight
	d.label(14, a-52, "start", d.text, "One master and a replica: the lock has two holders")
	d.lanes(singleTop, "client A", "master", "replica", "client B")
	both := span{singleB.from, singleA.to}
	d.add(`<rect x="%d" y="%d" width="%d" height="%d" fill="%s" fill-opacity="0.15"/>`,
		both.from, a-22, both.to-both.from, b-a+44, d.wrong)
	d.label((both.from+both.to)/2, a-27, "middle", d.wrong, "both have it")

	d.bar(span{200, crash}, master, d.keyFill, d.key, "key")
	d.ask(setA, a, 200, master)
	d.answer(200, master, singleA.from, a, d.granted)
	d.bar(singleA, a, d.lockFill, d.lock, "A has the lock")
	d.cross(crash, master)
	d.label(crash+12, master-6, "start", d.wrong, "crashes")
	d.add(`<path d="M%d %dL%d %d" stroke="%s" stroke-dasharray="3 3"/>`, 262, master+bar/2, 284, replica-16, d.muted)
	d.cross(287, replica-12)
	d.label(276, replica+21, "middle", d.muted, "not copied yet")
	d.label(back, replica+21, "start", d.muted, "promoted")
	d.add(`<path d="M%d %dv12" stroke="%s"/>`, back, replica-6, d.muted)

	d.bar(span{reach, laneRight}, replica, d.keyFill, d.key, "key")
	d.ask(setB, b, reach, replica)
	d.answer(reach, replica, singleB.from, b, d.granted)
	d.bar(singleB, b, d.lockFill, d.lock, "B has the lock")
}

// quorum draws the lock on three masters.
func (d *drawing) quorum() {
	a, b := quorumTop, quorumTop+4*laneHeight
	first, second, third := a+laneHeight, a+2*laneHeight, a+3*laneHeight
	d.label(14, a-36, "start", d.text, "Three masters that prove what they remember: it has one")
	d.lanes(quorumTop, "client A", "master a", "master b", "master c", "client B")

	d.bar(keyAtA, first, d.keyFill, d.key, "A's key")
	d.bar(span{210, crash}, second, d.keyFill, d.key, "A's key")
	d.ask(setA, a, 200, first)
	d.ask(setA, a, 210, second)
	d.add(`<path d="M%d %dL%d %d" stroke="%s" fill="none"/>`, setA, a, 222, third-8, d.line)
	d.cross(224, third-4)
	d.label(238, third-6, "start", d.muted, "out of reach")
	d.answer(200, first, 230, a, d.granted)
	d.answer(210, second, quorumA.from, a, d.granted)
	d.bar(quorumA, a, d.lockFill, d.lock, "A has the lock: 2 of 3")
	d.cross(crash, second)
	d.label(crash+12, second-6, "start", d.wrong, "crashes")
	d.bar(noVote, second, "none", d.late, "")
	d.label(534, second+5, "start", d.text, "restarted empty: no vote")

	d.ask(setB, b, reach, third)
	d.ask(setB, b, reach, first)
	d.bar(attemptB, third, d.keyFill, d.key, "")
	d.label(attemptB.to-6, third+5, "end", d.text, "undone")
	d.answer(reach, first, 530, b, d.wrong)
	d.answer(reach, third, 530, b, d.granted)
	d.label(540, b+21, "start", d.wrong, "1 of 3: not B's")

	for _, y := range []int{first, third} {
		d.bar(span{742, laneRight}, y, d.keyFill, d.key, "B's key")
		d.ask(setLate, b, 742, y)
		d.answer(742, y, quorumB.from, b, d.granted)
	}
	d.bar(quorumB, b, d.lockFill, d.lock, "B has it")
}

// lanes draws lanes below each other.
func (d *drawing) lanes(top int, names ...string) {
	for i, name := range names {
		d.lane(name, top+i*laneHeight)
	}
}

// bar draws what lasts for a time, with its name in it, if it has one.
func (d *drawing) bar(s span, y int, fill, stroke, name string) {
	d.add(`<rect x="%d" y="%d" width="%d" height="%d" fill="%s" stroke="%s"/>`, s.from, y-bar/2, s.to-s.from, bar, fill, stroke)
	if name != "" {
		d.label((s.from+s.to)/2, y+5, "middle", d.text, name)
	}
}

// ask draws a SET on its way, and answer what comes back.
func (d *drawing) ask(x, y, toX, toY int) { d.answer(x, y, toX, toY, d.muted) }

func (d *drawing) answer(x, y, toX, toY int, color string) {
	d.add(`<path d="M%d %dL%d %d" stroke="%s" stroke-width="1.5" fill="none"/>`, x, y, toX, toY, color)
}

// cross draws the end of something.
func (d *drawing) cross(x, y int) {
	d.add(`<path d="M%d %dl12 12m0 -12l-12 12" stroke="%s" stroke-width="2"/>`, x-6, y-6, d.wrong)
}
