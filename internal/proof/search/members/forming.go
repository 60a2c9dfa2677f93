package members

import "github.com/redquorum/redquorum/internal/proof/search"

const (
	formers  = 4 // masters of a world without a cluster
	makers   = 2
	attempts = 2 // clusters that may be begun
)

// Forming is a world in which no master has a cluster, and clients make new ones of their lists.
// What it assumes of time is in doc.go.
type Forming struct {
	Lists []set // of the clients that make clusters, which may die at any step
}

// FormingRules are the protocol. Anything set is a mistake.
type FormingRules struct {
	AnyTime      bool // masters are made active however long ago they joined
	NoAsking     bool // a master that joined long ago is free again, whatever the others say
	AskMajority  bool // it is free again when most of the others say that they are not active
	Blind        bool // a master joins although it joined another cluster
	MajorityJoin bool // masters are made active when a majority has joined
	KeepsOn      bool // who was refused at one master makes the others active
}

type marker uint8

const (
	isNew marker = iota
	joined
	member
)

type former struct {
	marker  marker
	cluster uint8 // one more than the number of the try
}

// A try is one attempt to make a cluster.
type try struct {
	begun   bool
	givenUp bool
	maker   uint8
	joined  set
	formed  bool // its maker knows that all have joined
	gone    bool // its maker died
	shut    bool // nobody is made active any more, MaxTTL/2 after the first one joined
	due     bool // it is MaxTTL since the first one joined
}

// An asker has found a master that joined a try long ago, and asks the others.
type asker struct {
	cluster uint8
	asked   set
}

type unformed struct {
	masters [formers]former
	tries   [attempts]try
	asker   asker
}

// The steps and the claim.
const (
	Tries   search.Kind = "sees all masters new, and begins a cluster"
	Joins   search.Kind = "joins"
	IsTaken search.Kind = "does not join, because it is not new any more"
	Resets  search.Kind = "is new again, because its cluster was given up"
	Opens   search.Kind = "is made active"
	Shuts   search.Kind = "it is too late to make masters active"
	IsDue   search.Kind = "those that joined are due"
	Asks    search.Kind = "is asked, and is not active"
	Frees   search.Kind = "is new again, because nobody is active"
	Follows search.Kind = "is told, because another one is active"

	ownMaster = "no master belongs to two clusters of which both have an active member"
)

type forming struct {
	Forming
	FormingRules
}

// ExploreForming searches all ways in which clusters are made.
func ExploreForming(config Forming, rules FormingRules) search.Report {
	return search.Run(func() search.Model[unformed] { return &forming{config, rules} })
}

// Start is a world of new masters.
func (x *forming) Start() (w unformed) { return w }

// Each visits every step.
func (x *forming) Each(w *unformed, visit func(*unformed, search.Event)) {
	for k := range w.tries {
		t := &w.tries[k]
		if !t.begun {
			x.begins(w, k, visit)
			break // the others begin later
		}
		step := func(kind search.Kind, change func(*try)) {
			next := *w
			change(&next.tries[k])
			visit(&next, search.Event{Kind: kind, Client: int(t.maker), Node: search.Nowhere, Number: k + 1})
		}
		if !t.gone {
			step(Dies, func(t *try) { t.gone = true })
			x.makes(w, k, visit)
		}
		if t.joined != 0 && !t.shut {
			step(Shuts, func(t *try) { t.shut = true })
		} else if t.shut && !t.due {
			step(IsDue, func(t *try) { t.due = true })
		}
		if t.due {
			x.asks(w, k, visit)
		}
	}
}

func (x *forming) begins(w *unformed, k int, visit func(*unformed, search.Event)) {
	for maker, list := range x.Lists {
		free := true
		for i := range w.masters {
			free = free && (!list.has(i) || w.masters[i].marker == isNew || x.Blind && w.masters[i].marker == joined)
		}
		for other := range k {
			free = free && (int(w.tries[other].maker) != maker || w.tries[other].gone || w.tries[other].givenUp)
		}
		if free {
			next := *w
			next.tries[k] = try{begun: true, maker: uint8(maker)}
			visit(&next, search.Event{Kind: Tries, Client: maker, Node: search.Nowhere, Number: k + 1})
		}
	}
}

// makes is what the maker of a cluster does next: joins, the first of the masters before the
// others, which are asked at once and answer in any order, also when it has given up or it is too
// late; then sets back or makes active.
func (x *forming) makes(w *unformed, k int, visit func(*unformed, search.Event)) {
	t := &w.tries[k]
	list := x.Lists[t.maker]
	own := former{joined, uint8(k) + 1}
	for i := range w.masters {
		if !list.has(i) {
			continue
		}
		next := *w
		m, it := &next.masters[i], &next.tries[k]
		e := search.Event{Kind: Joins, Client: int(t.maker), Node: i, Number: k + 1}
		switch asked := t.joined != 0 || list == list.from(i); {
		case !t.formed && asked && !t.joined.has(i):
			if m.marker == isNew || x.Blind && m.marker == joined {
				*m = own
			} else {
				e.Kind, it.givenUp = IsTaken, !x.KeepsOn
			}
			it.joined = it.joined.with(i)
			it.formed = !it.givenUp && !it.shut && (it.joined == list || x.MajorityJoin && it.joined.count() >= list.majority())
		case t.givenUp && *m == own:
			*m, e.Kind = former{}, Resets
		case t.formed && *m == own && (!t.shut || x.AnyTime):
			m.marker, e.Kind = member, Opens
			x.judge(&next, &e)
		default:
			continue
		}
		visit(&next, e)
	}
}

// asks is what others do with masters that joined a cluster long ago.
func (x *forming) asks(w *unformed, k int, visit func(*unformed, search.Event)) {
	list := x.Lists[w.tries[k].maker]
	cluster := uint8(k) + 1
	asked := set(0)
	if w.asker.cluster == cluster {
		asked = w.asker.asked
	}
	some := false
	for i := range w.masters {
		some = some || w.masters[i] == former{member, cluster}
	}
	for i := range w.masters {
		if !list.has(i) {
			continue
		}
		next := *w
		m := &next.masters[i]
		e := search.Event{Kind: Asks, Client: search.Nobody, Node: i, Number: k + 1}
		need := list.count()
		if x.AskMajority {
			need = list.majority()
		}
		if *m == (former{joined, cluster}) && (asked.with(i).count() >= need || x.NoAsking) {
			freed := next
			freed.masters[i], freed.asker = former{}, asker{}
			e.Kind = Frees
			visit(&freed, e)
			e.Kind = Asks
		}
		if *m == (former{joined, cluster}) && some {
			told, toldBy := next, e
			told.masters[i].marker, toldBy.Kind = member, Follows
			x.judge(&told, &toldBy)
			visit(&told, toldBy)
		}
		if !asked.has(i) && *m != (former{member, cluster}) {
			next.asker = asker{cluster, asked.with(i)}
			visit(&next, e)
		}
	}
}

func (x *forming) judge(w *unformed, e *search.Event) {
	var open [attempts]bool
	for _, m := range w.masters {
		if m.marker == member {
			open[m.cluster-1] = true
		}
	}
	if open[0] && open[1] && x.Lists[w.tries[0].maker]&x.Lists[w.tries[1].maker] != 0 {
		e.Broken = ownMaster
	}
}
