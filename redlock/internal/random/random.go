// Package random draws what the library leaves to chance: mostly pauses, so that clients which
// failed together do not retry together. It draws from crypto/rand, as the values of locks do. So a
// test that seeds it (testing/cryptotest) decides everything that is random in the library.
package random

import (
	crypto "crypto/rand"
	"encoding/binary"
	"math/rand/v2"
)

// source is safe for concurrent use, and so are generators that have it: they keep nothing else.
type source struct{}

func (source) Uint64() uint64 {
	var bits [8]byte
	_, _ = crypto.Read(bits[:]) // which never fails
	return binary.LittleEndian.Uint64(bits[:])
}

var generator = rand.New(source{})

// N returns a number from 0 up to n, which must be positive, n excluded.
func N[Int ~int | ~int64](n Int) Int { return Int(generator.Int64N(int64(n))) }

// Float64 returns a number from 0 up to 1, 1 excluded.
func Float64() float64 { return generator.Float64() }
