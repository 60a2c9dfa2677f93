// Package fuzzed turns the bytes of a fuzz target into what it tries. Every text of bytes is valid:
// what follows its end is zeros, so a shorter text is a simpler case.
package fuzzed

import "encoding/binary"

// Source is what is left of the bytes.
type Source struct{ rest []byte }

// New returns a Source of these bytes.
func New(data []byte) *Source { return &Source{data} }

// More reports whether bytes are left.
func (s *Source) More() bool { return len(s.rest) > 0 }

// Bytes takes n bytes.
func (s *Source) Bytes(n int) []byte {
	taken := make([]byte, n)
	s.rest = s.rest[copy(taken, s.rest):]
	return taken
}

// Below takes a byte, and returns a number from 0 to n-1, where n is at most 256.
func (s *Source) Below(n int) int { return int(s.Bytes(1)[0]) % n }

// Bool takes a byte.
func (s *Source) Bool() bool { return s.Below(2) == 1 }

// Int64 takes eight bytes.
func (s *Source) Int64() int64 { return int64(binary.BigEndian.Uint64(s.Bytes(8))) } // any bits are a number

// Text takes a byte that says how long the text is, and the text: at most 15 bytes.
func (s *Source) Text() string { return string(s.Bytes(s.Below(16))) }

// Number takes one of these, or any number.
func (s *Source) Number(usual ...int64) int64 {
	if i := s.Below(len(usual) + 1); i < len(usual) {
		return usual[i]
	}
	return s.Int64()
}

// Pick takes one of these. What takes bytes must not be among them: each is evaluated.
func Pick[T any](s *Source, all ...T) T { return all[s.Below(len(all))] }
