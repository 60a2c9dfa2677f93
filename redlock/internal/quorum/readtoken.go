package quorum

// DecideReadToken finds the fencing token of a reader among the fences of the nodes that granted
// it: the smallest number that a quorum granted at most. A writer before had its own token at a
// quorum, which has a node in common with this one, so the reader's is not smaller. Once a quorum
// is at the token or above, a writer after it gets a larger one. That needs no second round if so
// many nodes granted that enough are ahead of the token: below is empty then. Otherwise it has the
// nodes that must be raised to the token (shared_raise.lua), and at those that are there or above.
// The token is 0 if too few nodes granted.
//
// The largest of the grants would do, too. But it may be the number of a minority with a wrong
// clock.
func DecideReadToken(fences []int64, granted NodeSet, need int) (token int64, at, below NodeSet) {
	for i := range granted.Nodes() {
		notAbove := 0
		for other := range granted.Nodes() {
			if fences[other] <= fences[i] {
				notAbove++
			}
		}
		if notAbove >= need && (token == 0 || fences[i] < token) {
			token = fences[i]
		}
	}
	if token == 0 {
		return 0, 0, 0
	}
	for i := range granted.Nodes() {
		if fences[i] >= token {
			at.Add(i)
		} else {
			below.Add(i)
		}
	}
	if at.Len() >= need {
		below = 0
	}
	return token, at, below
}
