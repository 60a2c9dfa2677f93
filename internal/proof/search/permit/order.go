package permit

import "slices"

// orders are the orders of nodes, clients and slots that mean nothing.
type orders struct {
	nodes, clients, slots [][]int
}

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

func mix(v uint64) uint64 {
	v = (v + 1) * 0x9e3779b97f4a7c15
	return (v ^ v>>29) * 0xbf58476d1ce4e5b9
}

// canonical tries the orders that sort nodes and clients by their properties, and returns the
// smallest code. Clients that ask for different numbers of permits are not alike.
func (o *orders) canonical(w *world, ofClients []int) code {
	clients := len(ofClients)
	nodeSigns, clientSigns := signs(w, clients)
	for c, k := range ofClients { // in ascending order
		clientSigns[c] = clientSigns[c]>>4 | uint64(k)<<60
	}
	best := code{^uint64(0), ^uint64(0), ^uint64(0)}
	for _, nodeOrder := range o.nodes {
		if !sorted(nodeOrder, nodeSigns[:]) {
			continue
		}
		for _, clientOrder := range o.clients {
			if !sorted(clientOrder, clientSigns[:]) {
				continue
			}
			for _, slotOrder := range o.slots {
				renamed := w.renamed(nodeOrder, clientOrder, slotOrder)
				if k := pack(&renamed, clients, false); slices.Compare(k[:], best[:]) < 0 {
					best = k
				}
			}
		}
	}
	return best
}

// signs tell nodes and clients apart by what depends neither on their order nor on that of slots.
func signs(w *world, clients int) (ofNodes [nodes]uint64, ofClients [maxClients]uint64) {
	for c := range clients {
		one := &w.clients[c]
		ofClients[c] = mix(uint64(one.phase))
	}
	for n := range w.nodes {
		m := &w.nodes[n]
		sum := uint64(m.Permits)
		for i := range permits {
			sum += mix(uint64(min(m.Slots[i], firstClient)) + uint64(m.firm>>i&1)<<8)
		}
		for i := range m.Waiting {
			sum += mix(uint64(min(m.Waiting[i], firstClient)) + uint64(i)<<8 + 1<<20)
		}
		for c := range clients {
			one := &w.clients[c]
			tie := w.link(c, n)&^3 | bit(one.votes[n] == unknown)<<8 | bit(one.votes[n] == refused)<<9 |
				bit(int(one.at) == n+1)<<10
			for i := range permits {
				tie += mix(bit(m.Slots[i] == valueOf(c)) + bit(one.slot == int8(i)+1)<<1 + bit(one.votes[n] == int8(i)+1)<<2 + 1<<30)
			}
			for i := range m.Waiting {
				tie |= bit(m.Waiting[i] == valueOf(c)) << (11 + i)
			}
			sum += mix(tie)
			ofClients[c] += mix(tie + 1<<40)
		}
		ofNodes[n] = sum
	}
	return ofNodes, ofClients
}

func bit(v bool) uint64 {
	if v {
		return 1
	}
	return 0
}

// renamed puts nodes, clients and slots into a different order.
func (w *world) renamed(nodeOrder, clientOrder, slotOrder []int) world {
	to := world{losses: w.losses}
	var values [firstClient + maxClients]value
	values[over], values[dead] = over, dead
	var places [nodes + 1]int8
	var slots [permits + 2]int8 // of votes, too
	slots[refused] = refused
	for i, c := range clientOrder {
		values[valueOf(c)] = valueOf(i)
	}
	for i, n := range nodeOrder {
		places[n+1] = int8(i) + 1
	}
	for i, s := range slotOrder {
		slots[s+1] = int8(i) + 1
	}
	for i, n := range nodeOrder {
		m, was := &to.nodes[i], &w.nodes[n]
		m.Permits = was.Permits
		for j, s := range slotOrder {
			m.Slots[j] = values[was.Slots[s]]
			m.firm |= was.firm >> s & 1 << j
		}
		for j := range m.Waiting {
			m.Waiting[j] = values[was.Waiting[j]]
		}
		for j, c := range clientOrder {
			m.lost |= was.lost >> c & 1 << j
			m.lostExt |= was.lostExt >> c & 1 << j
		}
	}
	for i, c := range clientOrder {
		one, was := &to.clients[i], &w.clients[c]
		*one = client{phase: was.phase, slot: slots[was.slot], at: places[was.at]}
		for j, n := range nodeOrder {
			one.votes[j] = slots[was.votes[n]]
			one.ext |= was.ext >> n & 1 << j
		}
	}
	return to
}
