package main

import "sync"

// store is what the lock protects: it remembers the largest fencing token that it has seen, and refuses smaller ones.
type store struct {
	mu      sync.Mutex // guards the field below
	largest int64
}

// write stores something under a token, if that is not stale. It returns the largest token seen before.
func (s *store) write(token int64) (seen int64, passed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen = s.largest
	if stale(token, seen) {
		return seen, false
	}
	s.largest = token
	return seen, true
}

// stale is the whole check: somebody with a larger token was here before. The same token again is the same holder's.
func stale(token, seen int64) bool { return token < seen }

// ahead reports whether somebody with a larger token was here.
func (s *store) ahead(token int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return stale(token, s.largest)
}
