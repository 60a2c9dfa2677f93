package survey

import (
	"cmp"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

func TestAFewOfManyWaitersAreNamed(t *testing.T) {
	i := Inspection{Nodes: []NodeInspection{
		{Waiting: 20, Waiters: []string{"a1", "a2", "a3", "a4", "a5"}}, {}, {Waiting: 2, Waiters: []string{"b1", "b2"}},
	}}
	assert.Equal(t, "a1, b1, a2, b2, a3, a4, and 16 more", i.waiters(), "the oldest of each master first")
}

func TestOfAValueOnlyTheBeginningIsShown(t *testing.T) {
	for value, want := range map[string]string{"": "", "short": "short", "12345678": "12345678", "123456789": "12345678…", "ab|owner": "ab", "\n": `\n`} {
		assert.Equal(t, want, Shortened(value))
	}
}

// Two of three masters have a value for so long; it ends with the shorter of the longest two.
func TestATTLIsThatOfAMajority(t *testing.T) {
	for _, c := range []struct {
		left []time.Duration
		want int64
	}{
		{nil, 0},
		{[]time.Duration{time.Second}, 0},
		{[]time.Duration{time.Second, 3 * time.Second, 2 * time.Second}, 2000},
		{[]time.Duration{-1, time.Second}, 1000},
		{[]time.Duration{-1, time.Second, -time.Second}, -1},
	} {
		assert.Equal(t, c.want, millisOf(c.left, 2))
	}
}

func TestNamesAreInTheOrderOfTheirNumbers(t *testing.T) {
	names := []string{"", "a", "a#2", "a#10", "a#10b", "b", "job2", "job02", "job10", "job10/3", "job10/20", "job18446744073709551616", "jobs", "é"}
	for i, a := range names {
		for j, b := range names {
			if a != "job02" && b != "job02" {
				assert.Equal(t, cmp.Compare(i, j), Natural(a, b), "%q, %q", a, b)
			}
		}
	}
	assert.NotZero(t, Natural("job2", "job02"), "they are two names")
}

func TestLeftIsShort(t *testing.T) {
	for millis, want := range map[int64]string{-1: "for ever", 0: "0s", 940: "900ms", 9_990: "9.9s", 29_999: "29s", 65_000: "1m5s"} {
		assert.Equal(t, want, LeftText(millis))
	}
	assert.Equal(t, int64(-1), (&Inspection{Kind: KindSemaphore, Verdict: "free"}).Left())
	i := Inspection{Kind: KindSemaphore, Verdict: "free", Permits: []Holding{
		{Verdict: "held", TTLMillis: 5000}, {Verdict: "split"}, {Verdict: "held", TTLMillis: 4000},
	}}
	assert.Equal(t, 4*time.Second.Milliseconds(), i.Left())
}

func TestATokenIsTheNumberThatAQuorumHas(t *testing.T) {
	for _, c := range []struct {
		fences []int64
		want   int64
	}{{nil, 0}, {[]int64{7}, 0}, {[]int64{7, 7, 6}, 7}, {[]int64{900, 7, 7}, 7}, {[]int64{0, 0, 0}, 0}} {
		in := Inspection{Value: "v", Verdict: "held", Quorum: 2}
		for _, fence := range c.fences {
			in.Nodes = append(in.Nodes, NodeInspection{Value: "v", Fence: fence})
		}
		assert.Equal(t, c.want, in.Token(), c.fences)
	}
}

func TestAMasterStandsSomehowForAReason(t *testing.T) {
	secret := errors.New("dial redis://:secret@c:1")
	nodes := []redlock.NodeStats{
		{Stats: pool.Stats{State: pool.Up}},
		{Stats: pool.Stats{State: pool.Up}, Barred: pool.ErrQuarantined},
		{Stats: pool.Stats{State: pool.Down, Err: secret}},
		{Stats: pool.Stats{State: pool.Down}},
		{Stats: pool.Stats{State: pool.Connecting, Err: secret}},
	}
	var told []string
	for i := range nodes {
		state, why := Standing(&nodes[i])
		told = append(told, state+"|"+why)
	}
	assert.Equal(t, []string{"votes|", "no vote|" + pool.ErrQuarantined.Error(), "down|dial redis://…@c:1", "down|", "connecting|"}, told)
	assert.Equal(t, 1, admin.CountVotes(nodes))
}

func TestTermsAreToldWithTheirLeaders(t *testing.T) {
	bob := admin.Term{Number: 9, Value: "B|~995|bob", Owner: "bob", Since: admin.Since{Time: time.Unix(995, 0), Waited: true}}
	in := InspectionOf(&admin.Answers{
		At: time.Unix(1000, 0), Status: admin.Status{Value: bob.Value}, Terms: []admin.Term{bob, {Number: 1, Value: "C"}},
	})
	assert.Equal(t, KindElection, in.Kind)
	assert.Equal(t, []int64{9, 9}, []int64{in.Term, in.NewestTerm})
	assert.Equal(t, []Term{
		{Term: 9, Value: "B|~995|bob", Owner: "bob", Tenure: Tenure{"1970-01-01T00:16:35Z", 5000, true}}, {Term: 1, Value: "C"},
	}, in.Terms)
}

func TestWhatWasNotAskedAboutIsInTheList(t *testing.T) {
	told := admin.Scanned{Answers: []admin.Answers{{Status: admin.Status{Name: "x", Quorum: 2}, Stats: &redlock.Stats{Members: 3, Quorum: 2}, Unasked: true}}}
	listed := ListingOf(&told, "")
	require.Len(t, listed.Locks, 1)
	assert.Equal(t, "unknown", listed.Locks[0].Verdict)
	assert.Equal(t, 3, listed.Locks[0].Members)
}
