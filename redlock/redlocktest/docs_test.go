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
