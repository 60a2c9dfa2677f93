package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// candidates is how many processes campaign in the benchmarks of an election.
const candidates = 4

// resignations are the processes of an election. Each resigns after a while and campaigns again.
func resignations(servers []*redistest.Server, window time.Duration) *contention.Scenario {
	return &contention.Scenario{
		Mutex: "election", Servers: servers, Processes: candidates, Goroutines: 1,
		Hold: 20 * time.Millisecond, TTL: contentionFlags.TTL, WarmUp: contentionFlags.WarmUp, Window: window,
	}
}

// BenchmarkElection lets processes lead in turn, 20 ms each:
//
//	go test -run '^$' -bench Election ./bench
//
// The metrics are those of BenchmarkContention and of BenchmarkCrash: a gap is from the
// resignation until the next one leads, and late is from the expiry of a killed leader's keys until
// then. It fails if two led at once.
func BenchmarkElection(b *testing.B) {
	servers := startContention(b)
	b.Run(fmt.Sprintf("nodes=%d/candidates=%d/end=resign", contentionNodes, candidates), func(b *testing.B) {
		var r *contention.Result
		var err error
		for range b.N {
			if r, err = resignations(servers, contentionFlags.Window).Run(); err != nil {
				b.Fatal(err)
			}
		}
		reportContention(b, r)
	})
	benchmarkCrash(b, servers, "election")
}

// TestEveryCandidateLeads does what BenchmarkElection does, for a moment.
func TestEveryCandidateLeads(t *testing.T) {
	t.Parallel()
	s := resignations(startContention(t), 2*time.Second)
	s.Patience = patience
	r, err := s.Run()
	require.NoError(t, err)
	assert.Positive(t, r.MinProcessShare)
	assert.Zero(t, r.UnlockErrors)
}
