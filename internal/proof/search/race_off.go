//go:build !race

package search

// Race reports whether the race detector is on. A search then takes ten times as long.
const Race = false
