package survey

import (
	"fmt"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/prose"
)

// Tenure is since when somebody has a lock, as the lock's value tells, by the clock of its holder.
// Values of other libraries do not tell.
type Tenure struct {
	Since      string `json:"since"`   // empty: unknown
	HeldMillis int64  `json:"held_ms"` // until now, by our clock
	Waited     bool   `json:"waited"`  // it may have waited since then, so it has held the lock for less long
}

// TenureOf returns what a value tells, as of now by our clock.
func TenureOf(since admin.Since, now time.Time) Tenure {
	if since.Time.IsZero() {
		return Tenure{}
	}
	// Clocks differ, and the time is in seconds.
	return Tenure{since.Time.UTC().Format(time.RFC3339), max(now.Sub(since.Time), 0).Milliseconds(), since.Waited}
}

// Short is for a table: 45s, ≤5h12m.
func (t Tenure) Short() string {
	switch {
	case t.Since == "":
		return "-"
	case t.Waited:
		return "≤" + spanText(t.HeldMillis)
	default:
		return spanText(t.HeldMillis)
	}
}

// Clause is for a sentence, behind the holder; empty if nothing is known.
func (t Tenure) Clause() string {
	switch {
	case t.Since == "":
		return ""
	case t.Waited:
		return fmt.Sprintf(", which asked for it at %s, %s ago", t.Since, spanText(t.HeldMillis))
	default:
		return fmt.Sprintf(" since %s, for %s", t.Since, spanText(t.HeldMillis))
	}
}

func spanText(millis int64) string { return prose.Span(time.Duration(millis) * time.Millisecond) }

// Longest is the tenure that began first: of the holder, the readers or the permits.
func (i *Inspection) Longest() Tenure {
	longest := Tenure{}
	if i.Verdict == "held" {
		longest = i.Tenure
	}
	for _, holdings := range [][]Holding{i.Readers, i.Permits} {
		for _, h := range holdings {
			if h.Verdict == "held" && h.Since != "" && (longest.Since == "" || h.Since < longest.Since) {
				longest = h.Tenure
			}
		}
	}
	return longest
}
