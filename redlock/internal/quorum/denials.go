package quorum

// Denials are what nodes have said against a held lock, beyond the verdict on each extension. The
// zero Denials has nothing.
//
// An extension sets no key. A node that lacks the lock says so, and only then is it asked for its
// vote: to set the key again (a heal), or to hand it over once it is free. So an extension that is
// answered too late, or not at all, has given the holder no vote. And a holder that the lock was
// taken from by force cannot win it back node by node: whatever gives it a vote comes behind a no,
// and nodes that say no to several extensions in turn count together. Package search has looked for
// a way around this.
//
// A vote that was given does not count in the extension that first finds it, because somebody else
// may have held the lock before, and the nodes that noticed it must not be outvoted.
type Denials struct {
	lacks NodeSet // said no when last asked, and may have been given the vote since
	since NodeSet // said no to the last extension that was won, or since
}

// Lacks returns the nodes whose next yes counts as a no.
func (d *Denials) Lacks() NodeSet { return d.lacks }

// Decided takes the verdict on an extension. What nodes have said to it comes next ([Denials.Add]).
func (d *Denials) Decided(v Verdict) {
	if v == Won {
		d.since = 0
	}
}

// Add takes answers to an extension, with its verdict or later: of nodes that lack the lock, and of
// those whose yes counted as a no.
func (d *Denials) Add(lacking, back NodeSet) {
	d.lacks = d.lacks.Minus(back).Or(lacking)
	d.since = d.since.Or(lacking)
}

// Lost reports whether the nodes that have said no are a majority. Count counts a ballot.
func (d *Denials) Lost(count func(*Ballot) Tally) bool {
	return DecideHeld(count(&Ballot{Refused: d.since})) == Denied
}
