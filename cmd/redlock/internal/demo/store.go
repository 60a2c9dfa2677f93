package demo

import "github.com/redquorum/redquorum/fence"

// store is what the lock protects: it remembers the largest fencing token that it has seen, and refuses smaller ones.
type store struct{ gate fence.Gate }

// write stores something under a token, if that is not stale. It returns the largest token seen before, as far as it was refused for that.
func (s *store) write(token int64) (seen int64, passed bool) {
	seen = s.gate.Newest()
	if err := s.gate.Admit(token); err != nil {
		return s.gate.Newest(), false
	}
	return seen, true
}

// ahead reports whether somebody with a larger token was here.
func (s *store) ahead(token int64) bool { return token < s.gate.Newest() }
