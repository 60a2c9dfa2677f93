package lease

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/owner"
)

// The token comes back as it was given. Of what is for people, the beginning does.
func FuzzLabel(f *testing.F) {
	f.Add("redis", "10.0.0.7:51334", "worker 3", "b7f3")
	f.Add("http", "[fe80::1%eth0]:1", strings.Repeat("ä;", 200), ";token=;owner=|@1|")
	f.Add("", "", "", strings.Repeat("\x00", MaxToken))
	f.Fuzz(func(t *testing.T, door, from, of, token string) {
		text, err := label{door, from, of, token}.text()
		if token == "" || len(token) > MaxToken {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		require.LessOrEqual(t, len(text), owner.Most)
		told, ok := owner.ParseLease(text)
		require.True(t, ok)
		require.Equal(t, token, told.Token)
		require.True(t, strings.HasPrefix(door, told.Door) && strings.HasPrefix(from, told.From) && strings.HasPrefix(of, told.Owner))
		if again, ok := owner.ParseLease(of); ok { // whatever others have for an owner
			require.NotEmpty(t, again.Token)
		}
	})
}

func TestTheOwnerOfAnotherProgramIsNoLabel(t *testing.T) {
	for _, text := range []string{
		"", "me@host:1 app", "lease", "lease;door=x", "lease;door=x;from=y;owner=z;token=", "lease;door=x;owner=z;from=y;token=t", "lease;door=x;from=y;token=t",
	} {
		_, ok := owner.ParseLease(text)
		assert.False(t, ok, text)
	}
}
