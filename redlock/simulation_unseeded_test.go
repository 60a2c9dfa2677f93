//go:build !go1.26

package redlock_test

import "testing"

const seededRandom = false

func seedRandom(*testing.T, uint64) {}
