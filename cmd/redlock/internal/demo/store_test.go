package demo

import "testing"

func TestStoreRejectsTokensBelowTheLargest(t *testing.T) {
	s := &store{}
	for i, c := range []struct {
		token, seen int64
		passed      bool
	}{
		{10, 0, true},
		{10, 10, true}, // the same holder again
		{12, 10, true},
		{11, 12, false},
		{10, 12, false},
		{12, 12, true}, // rejected writes leave no trace
	} {
		if seen, passed := s.write(c.token); seen != c.seen || passed != c.passed {
			t.Errorf("write %d with %d: got %d, %v, want %d, %v", i+1, c.token, seen, passed, c.seen, c.passed)
		}
	}
	if !s.ahead(11) || s.ahead(12) {
		t.Error("the store has seen 12: it is ahead of 11, and not of 12")
	}
}
