package run

import (
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/cmd/redlock/internal/pgroup"
)

// A SIGCONT that arrives just before redlock stops itself must not take effect just after.
func TestNothingRunsWhileRedlockIsStoppedWheneverItIsContinued(t *testing.T) {
	t.Parallel()
	rounds := 15
	if os.Getenv("REDQUORUM_SOAK") == "1" {
		rounds = 400
	}
	_, urls := clitest.StartServers(t, 3)
	s := startSuspended(t, urls, "x", "", "wait", `while :; do echo stopped; read x; fg >/dev/null; done`)
	group, err := syscall.Getpgid(s.pid)
	require.NoError(t, err)
	_, fields, ok := pgroup.ReadStat(strconv.Itoa(group))
	require.True(t, ok)
	redlock, err := strconv.Atoi(string(fields[1]))
	require.NoError(t, err)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	stops := 0
	for range rounds {
		s.term.Press(t, "\x1a")
		for range random.IntN(4) {
			time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond) // the moment varies
			require.NoError(t, syscall.Kill(redlock, syscall.SIGCONT))
		}
		time.Sleep(60 * time.Millisecond) // either way, it is over
		_, fields, ok := pgroup.ReadStat(strconv.Itoa(redlock))
		require.True(t, ok)
		if fields[0][0] == 'T' {
			stops++
			assert.True(t, pgroup.Still(group))
			before := s.marks(t)
			time.Sleep(5 * time.Millisecond) // ten beats
			assert.Equal(t, before, s.marks(t))
		}
		require.NoError(t, syscall.Kill(redlock, syscall.SIGCONT))
		s.term.Press(t, "continue\n")
		time.Sleep(30 * time.Millisecond) // or the key comes while the shell is still busy
	}
	t.Logf("%d of %d stops were checked", stops, rounds)
}
