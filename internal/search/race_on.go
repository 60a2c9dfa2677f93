//go:build race

package search

// Race is whether the race detector is on: a search then takes ten times as long.
const Race = true
