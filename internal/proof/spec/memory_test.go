package spec

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSwapWritesWhatIsExpectedAndDue(t *testing.T) {
	for _, test := range []struct {
		name                        string
		text, expected, write, rest string
		wait, due, now              int64
		want                        string
	}{
		{"new", "", "", "new", "I r 0 60000 p", 60_000, 0, 1_000, "new until 61000 I r 0 60000 p"},
		{"not new, if there is a marker", "active I r 0 60000 p", "", "new", "J r 0 60000 p", 60_000, 0, 1_000, "active I r 0 60000 p"},
		{"too early", "new until 61000 I", "new until 61000 I", "active", "I", 0, 61_000, 60_999, "new until 61000 I"},
		{"in time", "new until 61000 I", "new until 61000 I", "active", "I", 0, 61_000, 61_000, "active I"},
		{"another client was first", "active I", "new until 61000 I", "active", "I", 0, 61_000, 61_000, "active I"},
		{"read only", "active I", "active I", "", "J", 0, 0, 1_000, "active I"},
		{"nothing to read", "", "", "", "", 0, 0, 1_000, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Swap(test.text, test.expected, test.write, test.rest, test.wait, test.due, test.now)
			assert.Equal(t, test.want, got)
		})
	}
}
