package survey

import "github.com/redquorum/redquorum/internal/journal"

// Events is what log --json prints.
type Events struct {
	Complete bool            `json:"complete"` // a majority of the masters answered
	Events   []journal.Entry `json:"events"`   // the oldest first
}
