package memory

import "slices"

// Encode tries the orders of nodes and clients that sort them by their properties, and takes the
// smallest code.
func (x *explorer) Encode(w *world) code {
	nodeSigns, clientSigns := x.signs(w)
	best := code{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}
	for _, nodeOrder := range nodeOrders {
		if !sorted(nodeOrder, nodeSigns[:]) {
			continue
		}
		for _, clientOrder := range x.clientOrders {
			if !sorted(clientOrder, clientSigns[:]) {
				continue
			}
			for _, copyOrder := range copyOrders[:max(x.Copies, 1)] {
				renamed := w.renamed(nodeOrder, clientOrder, copyOrder)
				if c := x.pack(&renamed); slices.Compare(c[:], best[:]) < 0 {
					best = c
				}
			}
		}
	}
	return best
}

var (
	nodeOrders = permutations(nodes)
	copyOrders = [][]int{{0, 1}, {1, 0}}
)

func permutations(n int) (all [][]int) {
	if n == 0 {
		return [][]int{nil}
	}
	for _, shorter := range permutations(n - 1) {
		for i := range n {
			all = append(all, slices.Insert(slices.Clone(shorter), i, n-1))
		}
	}
	return all
}

func sorted(order []int, signs []uint64) bool {
	for i := 1; i < len(order); i++ {
		if signs[order[i-1]] > signs[order[i]] {
			return false
		}
	}
	return true
}

// signs tell nodes and clients apart by what does not depend on names.
func (x *explorer) signs(w *world) (ofNodes [nodes]uint64, ofClients [maxClients]uint64) {
	for n := range w.nodes {
		m := &w.nodes[n]
		ofNodes[n] = m.bits()&(1<<(plainNode+plainMemory)-1) | m.sign(runOf(n))<<plainNode
		for i := range w.copies {
			if w.copies[i].owner == runOf(n) {
				ofNodes[n] += mix(w.copies[i].sign(runOf(n)) + 1<<40)
			}
		}
		for c := range x.Clients {
			l := &w.clients[c].links[n]
			tie := l.bits()&(1<<plainLink-1) | bit(l.incarnation == m.incarnation)<<20 |
				bit(m.key == keyOf(c))<<21 | uint64(m.wait>>c&1)<<22
			ofNodes[n] += mix(tie)
			ofClients[c] += mix(tie + 1<<30)
		}
	}
	for c := range x.Clients {
		one := &w.clients[c]
		ofClients[c] += mix(uint64(one.phase)<<1 + bit(one.activating))
	}
	return ofNodes, ofClients
}

func (m *memory) sign(own uint8) uint64 {
	return m.bits()&(1<<plainMemory-1) | (bit(m.run == own)|bit(m.run == 0)<<1|bit(m.key != 0)<<2)<<plainMemory
}

func mix(v uint64) uint64 {
	v = (v + 1) * 0x9e3779b97f4a7c15
	return (v ^ v>>29) * 0xbf58476d1ce4e5b9
}

// renamed puts nodes, clients and copies into a different order, and numbers the incarnations as
// they come.
func (w *world) renamed(nodeOrder, clientOrder, copyOrder []int) world {
	to := world{faults: w.faults, restarts: w.restarts}
	var runs [nodes + 1]uint8
	var keys [maxClients + 1]uint8
	for i, n := range nodeOrder {
		runs[runOf(n)] = runOf(i)
	}
	for i, c := range clientOrder {
		keys[keyOf(c)] = keyOf(i)
	}
	var names [16]uint8
	last := uint8(0)
	name := func(incarnation *uint8) {
		if *incarnation != 0 && names[*incarnation] == 0 {
			last++
			names[*incarnation] = last
		}
		*incarnation = names[*incarnation]
	}
	move := func(m *memory) {
		wait := uint8(0)
		for i, c := range clientOrder {
			wait |= m.wait >> c & 1 << i
		}
		m.wait, m.run, m.key = wait, runs[m.run], keys[m.key]
		name(&m.incarnation)
	}
	for i, n := range nodeOrder {
		to.nodes[i] = w.nodes[n]
		move(&to.nodes[i].memory)
	}
	for i, from := range copyOrder {
		to.copies[i] = w.copies[from]
		to.copies[i].owner = runs[w.copies[from].owner]
		move(&to.copies[i].memory)
	}
	for i, c := range clientOrder {
		one := &to.clients[i]
		*one = w.clients[c]
		for j, n := range nodeOrder {
			one.links[j] = w.clients[c].links[n]
			name(&one.links[j].incarnation)
		}
	}
	return to
}
