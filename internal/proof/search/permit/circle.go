package permit

// circle returns states that lead to each other in a circle in which clients may go on for ever, or
// nil. Whatever is on its way arrives in the end. So they cannot if something is on its way in all
// states that lead to each other, and never arrives between them. Only some tasks may take part.
func (g *graph) circle(some tasks) []int32 {
	component := g.components(some)
	members := make(map[int32][]int32)
	for i, c := range component {
		members[c] = append(members[c], int32(i))
	}
	var shortest []int32
	for c, states := range members {
		waits, arrives, inside := ^tasks(0), tasks(0), false
		for _, i := range states {
			waits &= g.enabled[i]
			for _, e := range g.next[i] {
				if component[e.to] == c && some.has(e.task) {
					arrives |= 1 << e.task
					inside = true
				}
			}
		}
		if inside && waits&^arrives == 0 {
			if path := g.back(states[0], component, some); shortest == nil || states[0] < shortest[0] {
				shortest = path
			}
		}
	}
	return shortest
}

// back returns the shortest way from a state back to it, in its component.
func (g *graph) back(from int32, component []int32, some tasks) []int32 {
	parents := make(map[int32]int32)
	for queue := []int32{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for _, e := range g.next[at] {
			if component[e.to] != component[from] || !some.has(e.task) {
				continue
			}
			if _, known := parents[e.to]; known {
				continue
			}
			parents[e.to] = at
			queue = append(queue, e.to)
			if e.to != from {
				continue
			}
			path := []int32{from}
			for i := at; i != from; i = parents[i] {
				path = append([]int32{i}, path...)
			}
			return append([]int32{from}, path...)
		}
	}
	panic("permit: no way back")
}

// components numbers the strongly connected components, with the algorithm of Tarjan (1972).
func (g *graph) components(some tasks) []int32 {
	type frame struct {
		at   int32
		next int
	}
	var (
		number    = make([]int32, len(g.codes)) // 0: not visited
		low       = make([]int32, len(g.codes))
		component = make([]int32, len(g.codes)) // 0: not known
		last      int32
		found     int32
		open      []int32
	)
	for root := range g.codes {
		if number[root] != 0 {
			continue
		}
		stack := []frame{{at: int32(root)}}
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			at := top.at
			if top.next == 0 {
				last++
				number[at], low[at] = last, last
				open = append(open, at)
			}
			if top.next < len(g.next[at]) {
				e := g.next[at][top.next]
				to := e.to
				top.next++
				if !some.has(e.task) {
					continue
				}
				if number[to] == 0 {
					stack = append(stack, frame{at: to})
				} else if component[to] == 0 {
					low[at] = min(low[at], number[to])
				}
				continue
			}
			if stack = stack[:len(stack)-1]; len(stack) > 0 {
				parent := stack[len(stack)-1].at
				low[parent] = min(low[parent], low[at])
			}
			if low[at] != number[at] {
				continue
			}
			found++
			for done := false; !done; {
				one := open[len(open)-1]
				open = open[:len(open)-1]
				component[one] = found
				done = one == at
			}
		}
	}
	return component
}
