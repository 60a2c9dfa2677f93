package search

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Size says when a test of a search is run.
type Size uint8

// The sizes.
const (
	Always Size = iota
	Large       // only if REDQUORUM_SEARCH or REDQUORUM_SOAK is 1; takes seconds
	Soak        // only if REDQUORUM_SOAK is 1; takes minutes and gigabytes
)

// Soaking reports whether tests are run at their full size.
func Soaking() bool { return os.Getenv("REDQUORUM_SOAK") == "1" }

// Skip skips a test that is too large for this run.
func (s Size) Skip(tb testing.TB) {
	tb.Helper()
	switch {
	case s == Soak && !Soaking():
		tb.Skip("takes minutes and gigabytes; run with REDQUORUM_SOAK=1")
	case s == Large && !Soaking() && os.Getenv("REDQUORUM_SEARCH") != "1":
		tb.Skip("takes seconds; run with REDQUORUM_SEARCH=1, as `make search` does")
	case s != Always && Race:
		tb.Skip("too large for the race detector; the smaller ones have the same code")
	}
}

// Holds returns a row of a table: a search in which no claim may break, and that reaches at least
// so many states and these kinds of steps, and those that every one with its Config must reach.
func Holds[C, R any](t *testing.T, explore func(C, R) Report, must func(C) []Kind) func(
	name string, size Size, config C, rules R, states int, kinds ...Kind) {
	return func(name string, size Size, config C, rules R, states int, kinds ...Kind) {
		t.Run(name, func(t *testing.T) {
			size.Skip(t)
			report := explore(config, rules)
			t.Log(report)
			require.Empty(t, report.Broken, "a claim does not hold")
			assert.GreaterOrEqual(t, report.States, states)
			if must != nil {
				kinds = slices.Concat(must(config), kinds)
			}
			for _, kind := range kinds {
				assert.Positive(t, report.Count[kind], "never: %v", kind)
			}
		})
	}
}

// Finds returns a row of a table: a search that must break a claim, because there is a mistake. It
// may be any claim if none is given.
func Finds[C, R any](t *testing.T, explore func(C, R) Report) func(
	name string, size Size, config C, rules R, claim string) {
	return func(name string, size Size, config C, rules R, claim string) {
		t.Run(name, func(t *testing.T) {
			size.Skip(t)
			report := explore(config, rules)
			require.NotEmpty(t, report.Broken, "not found in %v", report)
			report.Count = nil
			t.Log(report)
			if claim != "" {
				assert.Equal(t, claim, report.Broken)
			}
			assert.Contains(t, report.Trace[len(report.Trace)-1], report.Broken)
		})
	}
}

// CheckNames walks through a model at random, and requires that states that differ in names only
// have the same steps: that its type tells all names, and that every step treats them alike.
func CheckNames[S comparable](t *testing.T, model Symmetric[S], steps int) {
	t.Helper()
	if Race {
		steps /= 10
	}
	require.NoError(t, compareNames(model, steps))
}

func compareNames[S comparable](model Symmetric[S], steps int) error {
	x := newNamer[S](model)
	random := rand.New(rand.NewPCG(1, 2))
	s := model.Start()
	for range steps {
		named, other := *x.name(&s), x.renamed(&s, random)
		if named != *x.name(&other) {
			return fmt.Errorf("%+v and %+v differ in names only, but not for the search", s, other)
		}
		for _, same := range []S{named, other} {
			if kind, differ := x.differ(model, s, same); differ {
				return fmt.Errorf("%+v and %+v differ in names only, but %q leads elsewhere", s, same, kind)
			}
		}
		var next []S
		model.Each(&s, func(to *S, _ Event) { next = append(next, *to) })
		if len(next) == 0 || random.IntN(100) == 0 {
			next = []S{model.Start()}
		}
		s = next[random.IntN(len(next))]
	}
	return nil
}

// differ reports whether two states lead to different ones, or by steps of different kinds.
func (x *namer[S]) differ(model Model[S], one, other S) (kind Kind, differ bool) {
	type step struct {
		to   fingerprint
		kind Kind
	}
	steps := map[step]int{}
	model.Each(&one, func(to *S, e Event) { steps[step{x.print(x.name(to)), e.Kind}]++ })
	model.Each(&other, func(to *S, e Event) { steps[step{x.print(x.name(to)), e.Kind}]-- })
	for to, n := range steps {
		if n != 0 {
			return to.kind, true
		}
	}
	return "", false
}

// renamed puts the things of a state into a random order.
func (x *namer[S]) renamed(s *S, random *rand.Rand) (to S) {
	shuffled := func(alike []int) []int {
		order := random.Perm(len(alike))
		slices.SortStableFunc(order, func(a, b int) int { return alike[a] - alike[b] })
		return order
	}
	x.reorder(&to, s, &orders{shuffled(x.alike[0]), shuffled(x.alike[1]), shuffled(x.alike[2])})
	return to
}
