//go:build !race

package fencemodel

// raceEnabled is whether the race detector is on: a search then takes ten times as long.
const raceEnabled = false
