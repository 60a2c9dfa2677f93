//go:build unix

package main

// sizes says how much each step looks at.
type sizes struct {
	models, protocol, library, raced, chaos, scenarios, fuzz, seeded string

	soak []string // the environment of full sizes
}

var (
	ci = sizes{
		models: "REDQUORUM_SEARCH=1", protocol: "1000000", library: "18000", raced: "2000",
		chaos: "3m", scenarios: directed, fuzz: fuzzed, seeded: twelve,
	}
	full = sizes{
		models: "REDQUORUM_SOAK=1", protocol: "100000000", library: "2000000", raced: "100000",
		chaos: "90m", scenarios: ".", fuzz: "10m", seeded: ".",
		soak: []string{"REDQUORUM_SOAK=1"},
	}
)
