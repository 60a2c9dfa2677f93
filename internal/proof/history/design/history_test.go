package design

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof"
	"github.com/redquorum/redquorum/internal/proof/history"
	"github.com/redquorum/redquorum/internal/proof/search"
)

var (
	seed = flag.Uint64("seed", 1, "of the histories")
	one  = flag.Int64("history", -1, "the number of one history to tell")
)

// TestNoHistoryBreaksAClaim plays REDQUORUM_HISTORIES histories.
func TestNoHistoryBreaksAClaim(t *testing.T) {
	histories := uint64(20_000)
	if search.Race {
		histories /= 20
	}
	histories = uint64(history.Count(t, int(histories)))
	report := Run(*seed, histories, Rules{}, Nothing)
	violations := int64(0)
	if report.Failed {
		violations = 1
		t.Errorf("history %d of seed %d:\n%s", report.Failure, *seed, Shrink(*seed, report.Failure, Rules{}, Nothing))
	}
	for i, name := range counterNames {
		t.Logf("%12d %s", report.Counts[i], name)
		if histories >= 20_000 && !report.Failed {
			assert.Positive(t, report.Counts[i], name)
		}
	}
	t.Log(proof.Line{
		Step: "protocol simulation", Size: fmt.Sprintf("%d histories, seed %d", report.Histories, *seed),
		Faults: report.Faults, Violations: violations,
	})
}

// TestTellHistory tells one history: go test ./internal/proof/history/design -v -run Tell -seed 1
// -history 42.
func TestTellHistory(t *testing.T) {
	if *one < 0 {
		t.Skip("tells the history of -history")
	}
	told, broken := Tell(*seed, uint64(*one), Rules{})
	t.Logf("\n%s", told)
	assert.Equal(t, Nothing, broken)
}

// mistakes are rules that are wrong, and the claim that they break.
var mistakes = []struct {
	name   string
	rules  Rules
	broken Claim
}{
	{"no allowance for the rate of clocks", Rules{NoRate: true}, Exclusive},
	{"no allowance for rounding", Rules{NoFixed: true}, Kept},
	{"half of the nodes are a quorum", Rules{SmallQuorum: true}, Exclusive},
	{"the validity counts from the last reply", Rules{FromLastReply: true}, Exclusive},
	{"a vote counts without proof of memory", Rules{NoProof: true}, Exclusive},
	{"memory is proven at the handshake alone", Rules{AdmittedOnly: true}, Exclusive},
	{"a quarantine is too short", Rules{ShortQuarantine: true}, Exclusive},
	{"old data from a disk is believed", Rules{TrustDisk: true}, Exclusive},
	{"a release does not compare the value", Rules{BlindRelease: true}, Exclusive},
	{"a reader's release deletes the key of all", Rules{ReleaseAll: true}, Exclusive},
	{"an extension counts after the validity has ended", Rules{LateVerdict: true}, Final},
	{"a shorter TTL shortens the validity late", Rules{LateShortening: true}, Exclusive},
	{"one time to live for all readers", Rules{SharedTTL: true}, Exclusive},
	{"a reader is granted a writer's name", Rules{BesideWriter: true}, Exclusive},
	{"votes for different slots count together", Rules{AnySlot: true}, Permitted},
	{"a node takes over any number of permits", Rules{AnyNumber: true}, Permitted},
	{"the largest fence is the token, without a second round", Rules{NoRaise: true}, Ordered},
	{"a token is complete at a majority of the nodes that granted", Rules{FewFences: true}, Ordered},
	{"a timestamp counts however far it is off", Rules{NoClamp: true}, Ordered},
	{"nodes follow a number however far it is ahead", Rules{FollowFar: true}, Ordered},
	{"a reader takes the smallest fence", Rules{SmallReadToken: true}, Ordered},
	{"a new connection does not kill the one before", Rules{KeepConnections: true}, Behind},
}

const mostHistories = 200_000

func TestEveryMistakeIsFound(t *testing.T) {
	if search.Race {
		t.Skip("plays 70,000 histories; the other tests have the same code")
	}
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			report := Run(1, mostHistories, m.rules, m.broken)
			assert.True(t, report.Failed)
			t.Logf("%d histories: %v is broken", report.Histories, m.broken)
		})
	}
}

func TestAHistoryIsTheSameEachTime(t *testing.T) {
	for i := range uint64(50) {
		first, broken := Tell(3, i, Rules{})
		again, _ := Tell(3, i, Rules{})
		assert.Equal(t, first, again)
		assert.Equal(t, Nothing, broken)
		assert.NotEmpty(t, first)
	}
}

func TestAFailureIsShrunkToWhatItNeeds(t *testing.T) {
	for _, m := range mistakes[:6] {
		report := Run(2, mostHistories, m.rules, m.broken)
		require.True(t, report.Failed, m.name)
		w := &world{rules: m.rules}
		fails := func(p plan) bool {
			w.play(&p)
			return w.broken[m.broken]
		}
		long := *newPlanner().make(2, report.Failure)
		short := history.Shrink(long, fails, simplify...)
		assert.True(t, fails(short), m.name)
		assert.Less(t, len(short.items), len(long.items), m.name)
		told := Shrink(2, report.Failure, m.rules, m.broken)
		assert.True(t, strings.HasSuffix(told, m.broken.String()+"\n"), m.name)
	}
}
