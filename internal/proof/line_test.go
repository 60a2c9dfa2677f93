package proof_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/internal/proof"
)

func TestALineIsReadAsItWasPrinted(t *testing.T) {
	line := proof.Line{Step: "chaos", Size: "20 acquisitions", Faults: 90, Violations: 1}
	read, ok := proof.Parse("    chaos_test.go:12: " + line.String())
	assert.True(t, ok)
	assert.Equal(t, line, read)
	for _, text := range []string{"", "proof: ", "proof: {}", "proof: {", "ok  	package	1.2s"} {
		_, ok := proof.Parse(text)
		assert.False(t, ok, text)
	}
}
