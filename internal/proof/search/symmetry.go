package search

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Symmetric model has nodes and clients (and other things) whose names mean nothing. Of the
// states that differ in names only, a search keeps one. What in a state is such a name, its type
// says: see the package.
type Symmetric[S comparable] interface {
	Model[S]
	// Alike says which things may change places. It is asked once.
	Alike() Alike
}

// Alike has a number for each thing. Those with equal numbers may change places. Numbers ascend.
type Alike struct {
	Nodes, Clients []int
	Others         []int // anything else: slots, copies
}

// Same returns the numbers of so many things that may all change places.
func Same(things int) []int { return make([]int, things) }

// Named is a type whose values are names wherever they are. Names returns what a field says in its
// tag "search".
type Named interface{ Names() string }

// kinds are those of things, in the order of Alike.
var kinds = [...]string{"node", "client", "other"}

// orders has an order of the things of each kind: orders[k][i] is the one that comes i-th.
type orders [len(kinds)][]int

// mostThings is how many things of a kind there may be, and fresh names.
const mostThings = 16

// A meaning is what a number stands for.
type meaning struct {
	what what
	kind uint8 // of things, for a name and for bits
	from uint8 // of a name: that of the first thing
	wide uint8 // of bits: how many belong to each thing
}

type what uint8

const (
	plain what = iota
	name
	bitsOf
	fresh // names that mean nothing and of which there may be any number
)

var (
	namePattern = regexp.MustCompile(`^(node|client|other)(?:\+(\d+))?$`)
	bitsPattern = regexp.MustCompile(`^(?:(\d+) )?bits of (node|client|other)s$`)
)

// kindOf returns the kind of things that an array has elements for, or -1.
func kindOf(text string) int {
	for k, kind := range kinds {
		if text == kind || text == kind+"s" {
			return k
		}
	}
	return -1
}

func meaningOf(text string) (m meaning) {
	number := func(text string) uint8 {
		if n, err := strconv.ParseUint(text, 10, 8); err == nil {
			return uint8(n)
		}
		return 1
	}
	if match := namePattern.FindStringSubmatch(text); match != nil {
		return meaning{what: name, kind: uint8(kindOf(match[1])), from: number(match[2])}
	}
	if match := bitsPattern.FindStringSubmatch(text); match != nil {
		return meaning{what: bitsOf, kind: uint8(kindOf(match[2])), wide: number(match[1])}
	}
	switch text {
	case "", "-":
		return meaning{}
	case "fresh":
		return meaning{what: fresh}
	default:
		panic("search: what is " + text + "?")
	}
}

// A leaf is one number of a state. A search looks at all of them for each step: they are small.
type leaf struct {
	place uint64 // the same for all that differ only in what they belong to
	at    uint32
	size  uint8
	meaning
	of [2]int8 // the things that it belongs to, or noThing
}

const noThing = -1

func (l *leaf) read(b []byte) uint64 {
	switch l.size {
	case 1:
		return uint64(b[l.at])
	case 2:
		return uint64(binary.NativeEndian.Uint16(b[l.at:]))
	case 4:
		return uint64(binary.NativeEndian.Uint32(b[l.at:]))
	default:
		return binary.NativeEndian.Uint64(b[l.at:])
	}
}

// word returns the bytes of a plain leaf, whatever they are.
func (l *leaf) word(b []byte) (v uint64) {
	if rest := b[l.at:]; len(rest) >= 8 {
		return binary.LittleEndian.Uint64(rest) << (64 - 8*l.size)
	}
	for i, part := range b[l.at : l.at+uint32(l.size)] {
		v |= uint64(part) << (8 * (i + 8 - int(l.size)))
	}
	return v
}

func (l *leaf) write(b []byte, v uint64) {
	switch l.size {
	case 1:
		b[l.at] = byte(v)
	case 2:
		binary.NativeEndian.PutUint16(b[l.at:], uint16(v))
	case 4:
		binary.NativeEndian.PutUint32(b[l.at:], uint32(v))
	default:
		binary.NativeEndian.PutUint64(b[l.at:], v)
	}
}

// A row is an array with an element for each thing of a kind.
type row struct {
	kind     int
	at, each uintptr
}

// A symmetry is where in a state there is something of things.
type symmetry struct {
	count  [len(kinds)]int // of things
	first  [len(kinds)]int // all things have numbers, those of a kind follow each other
	things int
	rows   []row  // outer ones before those inside
	plain  []leaf // that belong to a thing: neighbours together, in words of up to 8 bytes
	names  []leaf // and bits
	fresh  []leaf
}

func symmetryOf[S any](alike Alike) *symmetry {
	y := &symmetry{count: [...]int{len(alike.Nodes), len(alike.Clients), len(alike.Others)}}
	for k, n := range y.count {
		y.first[k] = y.things
		y.things += n
	}
	if slices.Max(y.count[:]) > mostThings {
		panic("search: too many things")
	}
	y.add(reflect.TypeFor[S](), 0, "", [2]int8{noThing, noThing}, 1)
	return y
}

// add takes the field at a place of a state.
func (y *symmetry) add(t reflect.Type, at uintptr, text string, of [2]int8, place uint64) {
	if named, ok := reflect.Zero(t).Interface().(Named); ok && text == "" {
		text = named.Names()
	}
	switch kind := t.Kind(); {
	case kind == reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			y.add(f.Type, at+f.Offset, f.Tag.Get("search"), of, scatter(place)+uint64(i))
		}
	case kind == reflect.Array:
		y.addArray(t, at, text, of, scatter(place))
	default:
		l := leaf{place: scatter(place), at: uint32(at), size: uint8(t.Size()), meaning: meaningOf(text), of: of}
		switch {
		case l.what == fresh:
			y.fresh = append(y.fresh, l)
		case l.what != plain:
			y.names = append(y.names, l)
		case l.of[0] != noThing:
			y.addPlain(l)
		}
	}
}

func (y *symmetry) addPlain(l leaf) {
	if i := len(y.plain) - 1; i >= 0 {
		last := &y.plain[i]
		if last.of == l.of && last.at+uint32(last.size) == l.at && last.size+l.size <= 8 {
			last.size += l.size
			return
		}
	}
	y.plain = append(y.plain, l)
}

func (y *symmetry) addArray(t reflect.Type, at uintptr, text string, of [2]int8, place uint64) {
	first, rest, _ := strings.Cut(text, ", ")
	kind := -1
	if strings.HasSuffix(first, "s") {
		kind = kindOf(first)
	}
	each := t.Elem().Size()
	if kind < 0 {
		for i := range t.Len() {
			y.add(t.Elem(), at+uintptr(i)*each, text, of, place+uint64(i))
		}
		return
	}
	y.rows = append(y.rows, row{kind, at, each})
	for i := range min(t.Len(), y.count[kind]) { // the others are empty
		inner := of
		switch thing := int8(y.first[kind] + i); int8(noThing) {
		case of[0]:
			inner[0] = thing
		case of[1]:
			inner[1] = thing
		default:
			panic(fmt.Sprintf("search: %v belongs to too many things", t))
		}
		y.add(t.Elem(), at+uintptr(i)*each, rest, inner, place)
	}
}

// rename puts the things of a state into an order. Room is for as much as a state.
func (y *symmetry) rename(b, room []byte, to *orders) {
	var moved [len(kinds)]bool
	var places [len(kinds)][mostThings]uint8
	for k, order := range to {
		for i, from := range order {
			places[k][from] = uint8(i)
			moved[k] = moved[k] || from != i
		}
	}
	if moved != [len(kinds)]bool{} {
		y.move(b, room, to, &moved, &places)
	}
	if len(y.fresh) > 0 {
		y.renumber(b)
	}
}

func (y *symmetry) move(b, room []byte, to *orders, moved *[len(kinds)]bool, places *[len(kinds)][mostThings]uint8) {
	for _, r := range y.rows {
		if !moved[r.kind] {
			continue
		}
		old := room[:copy(room, b[r.at:r.at+uintptr(len(to[r.kind]))*r.each])]
		for i, from := range to[r.kind] {
			copy(b[r.at+uintptr(i)*r.each:], old[uintptr(from)*r.each:uintptr(from+1)*r.each])
		}
	}
	for i := range y.names {
		l := &y.names[i]
		if v := l.read(b); v != 0 && moved[l.kind] {
			l.write(b, l.renamed(v, places[l.kind][:y.count[l.kind]]))
		}
	}
}

// renamed returns a name, or bits, when things are in other places.
func (l *leaf) renamed(v uint64, places []uint8) uint64 {
	if l.what == name {
		if i := v - uint64(l.from); i < uint64(len(places)) {
			return uint64(l.from + places[i])
		}
		return v
	}
	rest, moved, digit := v, uint64(0), uint64(1)<<l.wide-1
	for _, place := range places {
		moved |= rest & digit << (place * l.wide)
		rest >>= l.wide
	}
	moved |= rest << (len(places) * int(l.wide))
	return moved
}

// renumber numbers fresh names as they come. None is 0.
func (y *symmetry) renumber(b []byte) {
	var names [mostThings]uint64
	last := uint64(0)
	for i := range y.fresh {
		l := &y.fresh[i]
		v := l.read(b)
		if v != 0 && names[v] == 0 {
			last++
			names[v] = last
		}
		l.write(b, names[v])
	}
}

// A signer tells things apart by what does not depend on names. What belongs to two things, or
// belongs to one and names another, is a tie between them.
type signer struct {
	*symmetry
	signs []uint64 // of all things
	ties  []uint64
}

func (x *signer) sign(b []byte) {
	clear(x.signs)
	clear(x.ties)
	for i := range x.plain {
		l := &x.plain[i]
		if v := l.word(b); v != 0 {
			*x.markOf(l) += scatter(l.place + v)
		}
	}
	for i := range x.names {
		if l := &x.names[i]; l.read(b) != 0 {
			x.signNames(l, l.read(b))
		}
	}
	if len(x.fresh) > 0 {
		x.signFresh(b)
	}
	for a := range x.things {
		for other, tie := range x.ties[a*x.things : (a+1)*x.things] {
			if tie != 0 {
				tie = scatter(tie)
				x.signs[a] += tie
				x.signs[other] += bits.RotateLeft64(tie, 32)
			}
		}
	}
}

// markOf returns what the marks of a leaf that names nothing add up to: the sign of the thing that
// it belongs to, or the tie of two.
func (x *signer) markOf(l *leaf) *uint64 {
	if l.of[1] == noThing {
		return &x.signs[l.of[0]]
	}
	return &x.ties[int(l.of[0])*x.things+int(l.of[1])]
}

// signNames marks the things that a leaf names.
func (x *signer) signNames(l *leaf, v uint64) {
	count, first := x.count[l.kind], x.first[l.kind]
	if i := v - uint64(l.from); l.what == name && i < uint64(count) {
		x.mark(l, first+int(i), l.place)
		return
	}
	for i := 0; i < count && l.what == bitsOf; i++ {
		if digit := v & (1<<l.wide - 1); digit != 0 {
			x.mark(l, first+i, scatter(l.place+digit))
		}
		v >>= l.wide
	}
	if v != 0 && l.of[0] != noThing {
		*x.markOf(l) += scatter(l.place - v)
	}
}

// signFresh tells fresh names apart by where they are.
func (x *signer) signFresh(b []byte) {
	var where [mostThings]uint64
	for i := range x.fresh {
		l := &x.fresh[i]
		where[l.read(b)] += l.place
	}
	for i := range x.fresh {
		l := &x.fresh[i]
		if v := l.read(b); v != 0 && l.of[0] != noThing {
			*x.markOf(l) += scatter(l.place + where[v])
		}
	}
}

// mark adds a mark to the thing that a leaf names, and to what the leaf belongs to.
func (x *signer) mark(l *leaf, named int, mark uint64) {
	a, other := int(l.of[0]), int(l.of[1])
	switch {
	case a == noThing:
		x.signs[named] += mark
	case named == a || named == other:
		*x.markOf(l) += scatter(mark)
	case other == noThing:
		x.ties[a*x.things+named] += mark
	default:
		*x.markOf(l) += mark
		x.ties[a*x.things+named] += mark
		x.ties[other*x.things+named] += mark
	}
}

// scatter makes sums of signs say what was summed.
func scatter(v uint64) uint64 {
	v = (v + 1) * 0x9e3779b97f4a7c15
	return (v ^ v>>29) * 0xbf58476d1ce4e5b9
}
