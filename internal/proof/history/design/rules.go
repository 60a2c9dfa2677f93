package design

import "github.com/redquorum/redquorum/internal/proof/search/shared"

// Rules are the mistakes that a protocol has. The zero Rules have none.
type Rules struct {
	NoRate          bool // the allowance for drift is 2 ms, whatever the TTL
	NoFixed         bool // the allowance for drift has no fixed part, which is for rounding
	SmallQuorum     bool // half of the nodes are a quorum, rounded down
	FromLastReply   bool // the validity counts from the reply that decides
	NoProof         bool // a vote counts without proof of memory
	AdmittedOnly    bool // a vote counts if the node was admitted, without the marker behind it
	ShortQuarantine bool // a node that forgot has no vote for a quarter of MaxTTL
	TrustDisk       bool // data from a disk is believed, whether the node is durable or not
	BlindRelease    bool // a writer's release does not compare the value
	ReleaseAll      bool // a reader's release deletes the key of all readers
	LateVerdict     bool // an extension counts although the validity has ended
	LateShortening  bool // a shorter TTL shortens the validity only when the round is won
	SharedTTL       bool // the key of readers ends with the one that came last
	BesideWriter    bool // a reader is granted a name that a writer has
	AnySlot         bool // votes for different slots count together
	AnyNumber       bool // a node takes over any number of permits that it is asked for
	NoRaise         bool // the largest fence is the token, without a second round
	FewFences       bool // a token is complete at a majority of the nodes that granted
	NoClamp         bool // a timestamp counts however far it is from the node's clock
	FollowFar       bool // nodes are raised to a number however far it is ahead
	SmallReadToken  bool // a reader takes the smallest fence that it was granted
	KeepConnections bool // a new connection does not kill the one before
}

func (r *Rules) need(nodes int) int {
	if r.SmallQuorum {
		return max(nodes/2, 1)
	}
	return nodes/2 + 1
}

func (r *Rules) acquire(e *shared.Entry[int32], m *message, ts int64) (fence int64, granted bool) {
	switch {
	case !m.reads:
		return e.AcquireWrite(m.value, m.ttl, ts)
	case r.BesideWriter && e.Key != 0 && e.Key != e.Marker:
		return max(e.Fence, ts), true
	}
	fence, granted = e.AcquireRead(m.value, m.ttl, ts, false)
	if granted && r.SharedTTL {
		e.Until = e.Now + m.ttl
	}
	return fence, granted
}

func (r *Rules) extend(e *shared.Entry[int32], m *message) shared.Answer {
	if !m.reads {
		return e.ExtendWrite(m.value, m.ttl)
	}
	answer := e.ExtendRead(m.value, m.ttl)
	if answer != shared.Refused && r.SharedTTL {
		e.Until = e.Now + m.ttl
	}
	return answer
}

func (r *Rules) release(e *shared.Entry[int32], m *message) {
	if r.BlindRelease && !m.reads || r.ReleaseAll && m.reads && e.Key == e.Marker {
		e.Key, e.Until = 0, 0
	}
	if m.reads {
		e.ReleaseRead(m.value, 0, nobody)
	} else {
		e.ReleaseWrite(m.value, 0, nobody)
	}
}

// allowance returns the allowance for drift over a TTL, in microseconds.
func (r *Rules) allowance(ttlMillis int64) int64 {
	switch {
	case r.NoRate:
		return driftOf(0)
	case r.NoFixed:
		return driftOf(ttlMillis) - driftOf(0)
	default:
		return driftOf(ttlMillis)
	}
}
