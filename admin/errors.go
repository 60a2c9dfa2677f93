package admin

import "github.com/redquorum/redquorum/internal/journal"

// ErrChanged means that a lock has another holder than the one from which it was to be taken.
var ErrChanged = journal.ErrChanged
