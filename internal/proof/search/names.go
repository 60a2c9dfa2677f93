package search

import (
	"bytes"
	"slices"
	"unsafe"
)

// A namer finds, of all states that differ in names only, the one that is kept.
type namer[S comparable] struct {
	layout
	signer // without a symmetry if the model is not symmetric
	alike  orders
	order  orders
	runs   []run // of things that look alike
	state  *S
	best   S
	other  S
	room   [2][]byte
	moving []byte
}

// A run is a part of an order: things with equal signs. Those of one class may change places
// without any difference at all.
type run struct {
	order []int
	class []int
}

func newNamer[S comparable](model Model[S]) *namer[S] {
	x := &namer[S]{layout: layoutOf[S]()}
	x.room = [2][]byte{make([]byte, 0, x.size), make([]byte, 0, x.size)}
	symmetric, ok := model.(Symmetric[S])
	if !ok {
		return x
	}
	alike := symmetric.Alike()
	x.symmetry = symmetryOf[S](alike)
	x.signs, x.ties, x.moving = make([]uint64, x.things), make([]uint64, x.things*x.things), make([]byte, x.size)
	x.alike = orders{alike.Nodes, alike.Clients, alike.Others}
	for k, numbers := range x.alike {
		if !slices.IsSorted(numbers) {
			panic("search: the numbers of things that are alike must ascend")
		}
		x.order[k] = make([]int, len(numbers))
	}
	return x
}

// print returns the fingerprint of a state that has its name.
func (x *namer[S]) print(s *S) fingerprint {
	return fingerprintOf(x.bytes(unsafe.Pointer(s), x.room[0]))
}

// name returns the state that is kept for s. It is good until the next call.
func (x *namer[S]) name(s *S) *S {
	if x.symmetry == nil {
		return s
	}
	x.state = s
	x.sign(x.memory(s))
	x.runs = x.runs[:0]
	for k := range kinds {
		x.sort(x.order[k], x.alike[k], x.signs[x.first[k]:])
	}
	x.reorder(&x.best, s, &x.order)
	if len(x.runs) == 0 {
		return &x.best
	}
	x.classify()
	x.permute(0, 0)
	return &x.best
}

// memory is that of a state, with its padding.
func (x *namer[S]) memory(s *S) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(s)), x.size) }

// reorder makes to a state with its things in another order.
func (x *namer[S]) reorder(to, s *S, order *orders) {
	*to = *s
	x.rename(x.memory(to), x.moving, order)
}

// sort puts things in the order of their signs, each among those that it is alike with. Things with
// equal signs are runs.
func (x *namer[S]) sort(order, alike []int, signs []uint64) {
	for i := range order {
		at := i
		for ; at > 0 && alike[at-1] == alike[i] && signs[order[at-1]] > signs[i]; at-- {
			order[at] = order[at-1]
		}
		order[at] = i
	}
	for from := 0; from < len(order); {
		to := from + 1
		for to < len(order) && alike[to] == alike[from] && signs[order[to]] == signs[order[from]] {
			to++
		}
		if to-from > 1 {
			x.add(order[from:to])
		}
		from = to
	}
}

func (x *namer[S]) add(order []int) {
	if len(x.runs) < cap(x.runs) {
		x.runs = x.runs[:len(x.runs)+1]
	} else {
		x.runs = append(x.runs, run{})
	}
	last := &x.runs[len(x.runs)-1]
	last.order, last.class = order, last.class[:0]
	for i := range order {
		last.class = append(last.class, i)
	}
}

// classify finds neighbours in a run that may change places without any difference.
func (x *namer[S]) classify() {
	for _, r := range x.runs {
		for i := 1; i < len(r.order); i++ {
			r.order[i-1], r.order[i] = r.order[i], r.order[i-1]
			if x.reorder(&x.other, x.state, &x.order); x.other == x.best {
				r.class[i] = r.class[i-1]
			}
			r.order[i-1], r.order[i] = r.order[i], r.order[i-1]
		}
	}
}

// permute tries every order of the runs from a place on, and keeps the smallest state.
func (x *namer[S]) permute(i, at int) {
	if i == len(x.runs) {
		x.try()
		return
	}
	r := &x.runs[i]
	if at == len(r.order) {
		x.permute(i+1, 0)
		return
	}
	for from := at; from < len(r.order); from++ {
		if slices.Contains(r.class[at:from], r.class[from]) {
			continue
		}
		r.swap(at, from)
		x.permute(i, at+1)
		r.swap(at, from)
	}
}

func (r *run) swap(i, j int) {
	r.order[i], r.order[j] = r.order[j], r.order[i]
	r.class[i], r.class[j] = r.class[j], r.class[i]
}

func (x *namer[S]) try() {
	x.reorder(&x.other, x.state, &x.order)
	if bytes.Compare(x.bytes(unsafe.Pointer(&x.other), x.room[0]), x.bytes(unsafe.Pointer(&x.best), x.room[1])) < 0 {
		x.best = x.other
	}
}
