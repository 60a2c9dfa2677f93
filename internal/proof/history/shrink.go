package history

import "slices"

// Step offers plans that are simpler than one in some way. It goes on from the latest one that
// still failed when it was tried.
type Step[P any] func(plan P, try func(P) bool)

// Shrink makes a plan that fails simpler, one step after the other, until none of them finds a
// simpler one that fails.
func Shrink[P any](plan P, fails func(P) bool, steps ...Step[P]) P {
	for again := true; again; {
		again = false
		for _, step := range steps {
			step(plan, func(simpler P) bool {
				if !fails(simpler) {
					return false
				}
				plan, again = simpler, true
				return true
			})
		}
	}
	return plan
}

// Without leaves out parts of a list, at first half of it and at last single ones, while the rest
// fails. It returns the rest.
func Without[T any](all []T, fails func(rest []T) bool) []T {
	for size := (len(all) + 1) / 2; size > 0; size /= 2 {
		for i := 0; i < len(all); {
			rest := slices.Concat(all[:i], all[min(i+size, len(all)):])
			if fails(rest) {
				all = rest
			} else {
				i += size
			}
		}
	}
	return all
}
