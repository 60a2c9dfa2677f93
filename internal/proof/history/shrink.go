package history

import "slices"

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
