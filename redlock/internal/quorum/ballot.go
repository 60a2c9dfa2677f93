package quorum

// A Vote is one node's answer in a round.
type Vote uint8

// The votes.
const (
	Granted Vote = iota // did what it was asked
	Handed              // granted a release, and gave the key to a waiter
	Spared              // granted a release, and left the key to other libraries for a while
	Refused             // answered, but did not: somebody else has the key, or it is gone
	Failed              // no usable answer: an error, or none in time
)

// Ballot holds the votes of a round. The zero Ballot has none.
type Ballot struct {
	Granted NodeSet
	Refused NodeSet
	Failed  NodeSet
}

// Add counts a node's vote. Each node has one.
func (b *Ballot) Add(node int, v Vote) {
	switch v {
	case Granted, Handed, Spared:
		b.Granted.Add(node)
	case Refused:
		b.Refused.Add(node)
	case Failed:
		b.Failed.Add(node)
	}
}

// In returns the nodes that have voted.
func (b *Ballot) In() NodeSet { return b.Granted | b.Refused | b.Failed }

// Count returns the tally of the votes of this many members of a cluster. Members has the nodes of
// those that are asked; the others have failed, and so have those outside voting that answered.
func (b *Ballot) Count(size int, members, voting NodeSet) Tally {
	voting = voting.And(members)
	return Tally{
		Nodes:   size,
		Granted: b.Granted.And(voting).Len(),
		Refused: b.Refused.And(voting).Len(),
		Failed:  b.Failed.Or(b.Granted.Or(b.Refused).Minus(voting)).And(members).Len() + size - members.Len(),
	}
}

// CountRelease is Count for a release; expected are the nodes that have, or may have, what it
// releases.
func (b *Ballot) CountRelease(size int, members, voting, expected NodeSet) Tally {
	t := b.Count(size, members, voting)
	t.Expected = expected.Len()
	t.Absent = b.Refused.Minus(expected).And(voting).Len()
	return t
}
