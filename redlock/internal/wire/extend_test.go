package wire

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/redlock/internal/quorum"
)

func TestAnExtensionIsAnsweredForAllKeysOrForEach(t *testing.T) {
	for _, reply := range []any{"OK", int64(1), nil, []byte(allExtended), int64(2)} {
		assert.False(t, isExtended(reply), "%T %v", reply, reply)
	}
	all := ReadExtended(allExtended)
	for _, keys := range []int{1, 3, 2} {
		v, touched, err := all.Next(keys)
		assert.NoError(t, err)
		assert.Equal(t, quorum.Granted, v)
		assert.True(t, touched)
	}
	each := ReadExtended([]any{int64(1), int64(1), int64(1), int64(2), int64(0), []byte("OOM"), int64(1)})
	for i, want := range []struct {
		keys    int
		vote    quorum.Vote
		touched bool
		err     string
	}{
		{2, quorum.Granted, true, ""},
		{2, quorum.Refused, true, ""},  // one was healed
		{1, quorum.Refused, false, ""}, // somebody else's
		{1, quorum.Failed, false, "OOM"},
		{2, quorum.Failed, true, ""}, // an answer is missing
		{1, quorum.Failed, true, ""},
	} {
		v, touched, err := each.Next(want.keys)
		assert.Equal(t, want.vote, v, i)
		assert.Equal(t, want.touched, touched, i)
		if want.err == "" {
			assert.NoError(t, err, i)
		} else {
			assert.ErrorContains(t, err, want.err)
		}
	}
}
