package design

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/internal/proof/search"
)

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
