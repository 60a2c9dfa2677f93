package search

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"reflect"
	"unsafe"
)

// A fingerprint stands for a state in the set of those that are known. It has 128 bits that depend
// on all of the state. If it takes its values at random, the probability that any two of n states
// share one is n²/2¹²⁹: 10⁻²⁵ for ten million states, and 10⁻²³ for a hundred million. A shared one
// would hide a state, and what follows only from it. [Progress], which keeps its states, looks
// whether they are the same.
type fingerprint [2]uint64

// A layout is where the bytes of a type are that mean something.
type layout struct {
	size uintptr
	from []uintptr // of ranges without padding
	to   []uintptr
}

func layoutOf[S any]() (l layout) {
	t := reflect.TypeFor[S]()
	l.size = t.Size()
	l.add(t, 0)
	return l
}

func (l *layout) add(t reflect.Type, at uintptr) {
	switch kind := t.Kind(); {
	case kind == reflect.Struct:
		for i := range t.NumField() {
			l.add(t.Field(i).Type, at+t.Field(i).Offset)
		}
	case kind == reflect.Array:
		for i := range t.Len() {
			l.add(t.Elem(), at+uintptr(i)*t.Elem().Size())
		}
	case kind < reflect.Bool || kind > reflect.Uint64: // in between are all kinds of integers
		panic(fmt.Sprintf("search: a state cannot have a %v", t))
	case len(l.to) > 0 && l.to[len(l.to)-1] == at:
		l.to[len(l.to)-1] += t.Size()
	default:
		l.from, l.to = append(l.from, at), append(l.to, at+t.Size())
	}
}

// bytes returns the memory of s without padding. It may use room for that.
func (l *layout) bytes(s unsafe.Pointer, room []byte) []byte {
	all := unsafe.Slice((*byte)(s), l.size)
	if len(l.from) == 1 && l.to[0]-l.from[0] == l.size {
		return all
	}
	room = room[:0]
	for i, from := range l.from {
		room = append(room, all[from:l.to[i]]...)
	}
	return room
}

// fingerprintOf is the same in all runs.
func fingerprintOf(b []byte) fingerprint {
	const k0, k1 = 0x9e3779b97f4a7c15, 0xd6e8feb86659fd93
	h0, h1 := uint64(0x243f6a8885a308d3), uint64(0x13198a2e03707344)
	for len(b) >= 8 {
		v := binary.LittleEndian.Uint64(b)
		h0, h1 = fold(h0^v, k0), fold(h1^v, k1)
		b = b[8:]
	}
	var rest [8]byte
	copy(rest[:], b)
	v := binary.LittleEndian.Uint64(rest[:])
	return fingerprint{fold(fold(h0^v, k0), k1), fold(fold(h1^v, k1), k0)}
}

// fold multiplies, and folds the product.
func fold(v, k uint64) uint64 {
	high, low := bits.Mul64(v, k)
	return high ^ low
}
