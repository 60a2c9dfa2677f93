package redlocktest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheDocumentationQuotesTestsThatRun(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return strings.ReplaceAll(string(text), "\r\n", "\n")
	}
	tests := read("example_test.go")
	quoted := 0
	for _, path := range []string{"../../docs/testing.md", "doc.go"} {
		text := strings.ReplaceAll(read(path), "\n//\t", "\n")
		for _, rest := range strings.Split(text, "\nfunc Test")[1:] {
			body, _, found := strings.Cut(rest, "\n}\n")
			require.True(t, found, "%s: %s", path, rest)
			assert.Contains(t, tests, "\nfunc Test"+body+"\n}\n", path)
			quoted++
		}
	}
	assert.Equal(t, 2, quoted)
}

// The interface and its adapter are compiled in the example, where each has a comment of its own.
func TestTheDocumentationQuotesTheAdapter(t *testing.T) {
	page, err := os.ReadFile("../../docs/testing.md")
	require.NoError(t, err)
	example, err := os.ReadFile("example_mock_test.go")
	require.NoError(t, err)
	text := strings.ReplaceAll(string(page), "\r\n", "\n")
	_, block, found := strings.Cut(text, "```go\ntype Leases interface")
	block, _, closed := strings.Cut("type Leases interface"+block, "```")
	require.True(t, found && closed)
	quoted := strings.Split(strings.TrimSpace(block), "\n\n")
	for _, declaration := range quoted {
		assert.Contains(t, strings.ReplaceAll(string(example), "\r\n", "\n"), declaration+"\n")
	}
	assert.Len(t, quoted, 4)
}
