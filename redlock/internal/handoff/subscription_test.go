package handoff

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAMessageAboutAPermitHasItsSlot(t *testing.T) {
	slot, value, ok := readPermit("#12 ABC d|e f")
	assert.True(t, ok)
	assert.Equal(t, int32(12), slot)
	assert.Equal(t, "ABC d|e f", value)
	for _, message := range []string{"", "#", "ABC", "#1", "#-1 ABC", "#x ABC", "#0 ABC", "# ABC", "?ABC"} {
		_, _, ok := readPermit(message)
		assert.False(t, ok, message)
	}
}
