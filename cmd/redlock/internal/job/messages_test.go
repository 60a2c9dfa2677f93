package job

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whoever takes a lock chooses what its owner is called, and others read it in their terminals.
func TestLinesOfJSONHaveNothingThatATerminalObeys(t *testing.T) {
	const evil = "\x1b[2J \u009b31m \u202egnp.exe \u200b \U000e0041 \x7f"
	var out bytes.Buffer
	m := Messages{W: &out, JSON: true, Name: evil}
	m.About(&Holder{Owner: evil}).Say(Taken, "it is taken")
	assert.Equal(t, -1, strings.IndexFunc(out.String(), func(r rune) bool { return r != '\n' && !strconv.IsGraphic(r) }), "%q", out.String())
	var told struct{ Name, Holder string }
	require.NoError(t, json.Unmarshal(out.Bytes(), &told))
	assert.Equal(t, evil, told.Name, "a program reads what it is")
	assert.Equal(t, evil, told.Holder)
}
