package demo

import "github.com/redquorum/redquorum/fence"

// store is what the lock protects: it remembers the largest fencing token it has seen, and rejects
// smaller ones.
type store struct{ gate fence.Gate }

// write stores something under a token, unless the token is stale. It returns the largest token
// seen before; if the write is rejected, the one that rejected it.
func (s *store) write(token int64) (seen int64, passed bool) {
	seen = s.gate.Newest()
	if err := s.gate.Admit(token); err != nil {
		return s.gate.Newest(), false
	}
	return seen, true
}

// ahead reports whether the store has seen a larger token.
func (s *store) ahead(token int64) bool { return token < s.gate.Newest() }
