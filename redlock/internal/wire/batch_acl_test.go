package wire

import (
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each call of a batch fails with an error of its own, and leaves what the script of one leaves.
func TestABatchThatIsForbiddenSomethingFailsEachCall(t *testing.T) {
	s := newScriptServer(t)
	for _, test := range []struct {
		rule, single, batch string
		keys                any // that hold the lock, before and after
		args                []any
	}{
		{"-time", bare(acquires), bare([]string{acquireBatch}), int64(0), []any{"mine", 10000, 1_000_000, 10000}},
		{"-del", bare(releases), bare([]string{releaseBatch}), int64(2), []any{"mine", 50}},
		{"-get", bare([]string{verifySource}), bare([]string{verifyBatchSource}), int64(2), []any{"mine"}},
	} {
		s.do("FLUSHDB")
		if test.keys != int64(0) {
			s.do("MSET", "a", "mine", "b", "mine")
		}
		s.do("ACL", "SETUSER", "narrow", "reset", "on", "nopass", "~*", "&*", "+@all", test.rule)
		s.do("AUTH", "narrow", "")
		_, err := s.run([]string{"a"}, test.args, test.single)
		require.Error(t, err, test.rule)
		reply, err := s.run([]string{"a", "b"}, append(append([]any{}, test.args...), test.args...), test.batch)
		require.NoError(t, err, test.rule)
		replies, _ := reply.([]any)
		require.Len(t, replies, 2, test.rule)
		for _, one := range replies {
			assert.IsType(t, redis.Error(""), one, test.rule)
		}
		s.do("AUTH", "default", "")
		assert.Equal(t, test.keys, s.do("EXISTS", "a", "b"), test.rule)
	}
}

// The keys that a caller holds are not deleted, and it is told so, also beside another's key.
func TestABatchOfReleasesTellsThatDELWasRefused(t *testing.T) {
	s := newScriptServer(t)
	s.do("MSET", "a", "mine", "b", "theirs")
	s.do("ACL", "SETUSER", "narrow", "on", "nopass", "~*", "&*", "+@all", "-del")
	s.do("AUTH", "narrow", "")
	reply, err := s.run([]string{"a", "b"}, []any{"mine", 50, "mine", 50}, releaseBatch)
	require.NoError(t, err)
	replies, _ := reply.([]any)
	require.Len(t, replies, 2)
	assert.IsType(t, redis.Error(""), replies[0])
	assert.Equal(t, int64(0), replies[1])
}
