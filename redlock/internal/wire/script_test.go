package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestScriptsHaveWhatTheyRequireOnce(t *testing.T) {
	wait, last := code("wait"), -1
	for _, part := range []string{"local listLife =", "local function publish(", "local function handOver(", "local function enqueue("} {
		at := strings.Index(wait, part)
		assert.Greater(t, at, last, "%s comes behind what it uses", part)
		assert.Equal(t, 1, strings.Count(wait, part), part)
		last = at
	}
	assert.Panics(t, func() { code("no such file") })
}
