package main

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestThePicturesAreThoseInTheRepository(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, write(folder))
	for picture := range pictures {
		for theme := range themes {
			name := picture + "-" + theme + ".svg"
			drawn, err := os.ReadFile(filepath.Join(folder, name))
			require.NoError(t, err)
			kept, err := os.ReadFile(filepath.Join("../../../docs/images", name))
			require.NoError(t, err)
			assert.Equal(t, string(drawn), string(kept), "go run ./internal/proof/picture")
			assert.NoError(t, xml.Unmarshal(drawn, new(struct{})))
		}
	}
}

// What the picture says of time is true of it.
func TestTheLockEndsBeforeAnyKeyInThePicture(t *testing.T) {
	granted := 0
	for _, m := range masters {
		if m.received == 0 {
			continue
		}
		assert.Greater(t, m.received, start, m.name)
		assert.Greater(t, m.received+ttl, expiry, m.name)
		if m.answered <= verdict {
			granted++
		}
	}
	assert.Equal(t, len(masters)/2+1, granted)
}

// Above, both clients have the lock at the same time; below, they have it one after the other, and
// the master that forgot has no vote while the lock that it forgot lasts.
func TestTheFailoverHasTwoHoldersAboveAndOneBelow(t *testing.T) {
	assert.Less(t, singleB.from, singleA.to)
	assert.Greater(t, singleA.to, reach, "A has it when B asks")
	assert.Less(t, quorumA.to, keyAtA.to, "the key outlasts the lock")
	assert.Greater(t, setLate, keyAtA.to, "B is granted it when the key has gone")
	assert.Greater(t, quorumB.from, quorumA.to)
	assert.GreaterOrEqual(t, noVote.to, crash+failoverTTL)
}
