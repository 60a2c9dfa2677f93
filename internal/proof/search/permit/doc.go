// Package permit is a model of a semaphore over a quorum of nodes, and a search through everything
// that can happen to it. It was written before the code: this text is the design.
//
// What one node keeps is spec.Semaphore, with a method for each script. [Explore] tries every order
// of messages, losses, expiries and extensions within its limits, and looks for too many holders.
// [ExploreCalm] tries every order of messages without faults, and looks for clients that are kept
// waiting. The tests also give them wrong rules, and require the searches to find each.
//
// # The protocol
//
// A semaphore of k permits has k slots. Slot i, counted from 1, is the mutex "name#i". A permit is
// that mutex: it is extended, verified, fenced and released like any other, and a client that holds
// a quorum of its keys holds the permit. Per-node counting of permits would not do: each node would
// admit k, and with three nodes and two permits three clients would hold two nodes each.
//
//	all nodes: any slot ──a quorum for one──▶ held
//	  │   └──one slot could have a quorum──▶ all nodes: that slot ──quorum──▶ held
//	  ▼                                       ▲  ▲   └──not won: release all, a fresh value─┐
//	not won: release all, a fresh value       │  │                                          │
//	  ├──TryAcquire──▶ ErrTaken               │  └──another slot could have a quorum────────┤
//	  ▼                                       │                                             │
//	one node: any slot, or its list ──granted─┤◀────────────────────────────────────────────┘
//	  ▲   └──waits──▶ handed over a slot ─────┘ (not at the coordinator: released, to it)
//
// The first round asks all nodes for any slot, beginning with the same one at each: a number drawn
// from the attempt's random value, modulo k. Nodes that agree on what is free give the same slot.
// So an uncontended permit takes one round trip, like the mutex. Asking the coordinator first and
// the others for its slot would take two. Drawn at random, concurrent clients rarely meet on a
// slot.
//
// Each answer says which slot it gave and which slots are free at the node besides. If no slot has
// a quorum, these answers tell whether one could: given to the caller or free at a quorum of nodes.
// Then a second round asks all nodes for that slot, and each of them gives up another one that it
// gave to this value. If none could, or the second round is refused, the attempt is over.
// TryAcquire makes no more than these two rounds.
//
// Acquire then turns to one node with a fresh value: the first in the order of coordinators that
// refused and had no free slot; otherwise to the coordinator of the semaphore's name. (A node with
// a free slot would grant it, and the others would refuse it again.) That node takes a slot or puts
// the caller on one list for all slots. What it takes or is given later, the caller asks of all
// nodes, as in the second round; that confirms the node's vote, too. A waiter that is handed a slot
// elsewhere than at the coordinator gives it back and goes to the coordinator, as for the mutex.
//
// # Rules that the search insists on
//
//   - Votes count for one slot only (Rules.AnySlot).
//   - A value asks for one slot by number at most. To try another slot, a client releases all and
//     draws a fresh value (Rules.ManySlots): a late request for the first slot would take away the
//     vote for the second one. Both commands go out in one write: it costs no round trip.
//   - A message about a hand-over is no vote. The round that follows it compares and confirms
//     (Rules.TrustMessage), and gives the full TTL (Rules.NoRefresh).
//   - A release compares the value, and frees no slot in which it does not find it
//     (Rules.NoCompare).
//   - Whoever leaves the list gives back what it was given meanwhile (CalmRules.LeaveDrops). So the
//     release of an attempt names no slot: it looks at all of them.
//   - A client that is refused releases what it got elsewhere before it tries the next slot
//     (CalmRules.KeepsMinority).
//
// And one that it cannot see: a value is used once. A node takes equal values for one attempt, and
// would give both callers one slot. So every attempt draws a value of its own.
//
// # Waiting
//
// Without faults, whatever order messages arrive in, a free permit that a client waits for is given
// out, without a poll, and clients cannot keep each other from it for ever: two clients do not even
// split two slots of three nodes. If a release arrives everywhere before the requests of the waiter
// that it woke, as it does when messages take about the same time, a vote of the coordinator always
// leads to a permit, and the list is served in order (Calm.Prompt). If not, the waiter is refused,
// and waits at a node that the release has not reached yet. TryAcquire, and the first round of
// Acquire, may overtake a waiter while its slot is on the way, as TryLock may.
//
// # The number of permits
//
// Each node keeps k. A node that knows another number refuses a request, unless none of the slots
// of *its* number is taken: then it takes over the caller's, and drops its wait list. (To look at
// the slots of the caller's number is not enough, Rules.OwnSlots.) Every grant compares, also that
// of one slot (Rules.LaxSlot), at every node (Rules.LaxNode). So:
//
// While the key of a slot lives that was granted under k, its node knows k. If two clients hold
// permits under different numbers, their quorums share a node, which would know both. So all
// holders believe in the same number, and each has a slot of its own below it.
//
// The key that keeps k must outlive the slots (Rules.Expires). Whatever gives the key of a slot an
// end, be it a grant, a hand-over, an extension or an adoption, makes the number live for twice
// that time from then on, and nothing makes it end earlier. So this needs no longest TTL, which
// may change, or differ between clients; and a number that nobody uses any more is soon gone. A
// release after which no slot is taken deletes it.
//
// An extension looks at the slot and at the number in one step. It does not vote where it finds
// another number (Rules.SlotOnly, Rules.SlotVotes). A slot that is absent is set again only where
// the node takes a request for that number, and then the number is set with it: a slot under
// another number could be a vote (Rules.HealVotes together with Rules.SlotVotes), and would keep
// the wrong number in force there for as long as its holder renews. Such an extension is no vote,
// as for the mutex, although it would make no further holder here. Where the slot is there and the
// number is not, or is none, others deleted or overwrote it: as long as the slot was there no
// other number was admitted, so it is set again.
//
// A node that restarted empty does not vote for MaxTTL, like any node that forgot. The first
// request or extension then brings k back. If that is another k, the extensions of the present
// holders find it and have no vote of that node; those holders have a quorum without it, or lose. k
// changes when no permit is held and no attempt is under way at a quorum of nodes, with the first
// request for the new one. Nothing has to be deleted.
//
// When nodes disagree (two programs with different numbers began at once), each node refuses one of
// them, and at most one number has a quorum. A request is ErrInvalid if a quorum of nodes has
// another number and the slots are taken there. If fewer do, they count as refusals: ErrTaken.
//
// # The scripts
//
// S is the key of the semaphore, prefix and name; k is at most 1,024, because a script looks at all
// slots, which takes a node about 1 µs for each. P is the process of a waiter. A release looks at
// all slots anyway, so it looks at the list, too, and there is no sign that somebody waits.
//
//	S#1 … S#k                   the slots: value, PX TTL. The keys of mutexes of these names
//	redquorum:permits:S         k as text, PX twice the longest of the slots, or until none is taken
//	redquorum:permit:wait:S     the list: a sorted set like redquorum:wait:, 3 minutes
//	redquorum:fence:S#i         the counters, as for the mutex
//
// Requests are sent in order: behind their release they would leave keys behind. A release may be
// late, because a value is used once.
//
// A slot that the value has keeps the later of its TTLs: a late request must not shorten that of an
// extension. A hand-over sets S#i to the waiter's value for the grace and publishes "#i value" on
// redquorum:wake:P. A random value begins with a letter or a digit from 2 to 7, so "#" tells this
// from the message of the mutex; the value may have any bytes behind the space.
//
// Unlock sends permit_release with 0 to keep to all nodes: a node may have given this value another
// slot in a first round whose answer was lost or came late. For the same reason a client that has
// won by its first round sends one with its slot to keep to the nodes that have not said that they
// gave it that slot.
//
// A mutex named S#i excludes the permit, and the other way round, but its release looks at the list
// of S#i only: the waiters of the semaphore then poll. The same goes for ForceUnlock and Adopt of a
// single slot.
//
// # TryLockAny
//
// It is the first two rounds, with the given names for slots, the first of them first at each node,
// and no number to compare. So the search covers it. Its script is permit.lua without the number,
// with the names as KEYS; a name that it gives up is handed over like a mutex (handover.lua).
// LockAny needs no script: a waiter for each name, each with its own value, and when one has its
// lock the others give up as always.
//
// # What stands for what
//
// Where faults may happen, an attempt begins with the first request that is executed, because one
// that began earlier would only be over earlier. An answer arrives at once or never: a lock that is
// learned of later is held for less. Requests of the present attempt may be executed at any time
// again. What attempts leave behind that are over, only refuses votes and may be handed over; it
// disappears at once where nobody waits (Config.Leftovers keeps it). A key that counts as a vote
// lives as long as the attempt or lock, which may end at any step; any other key may expire at any
// step. A node that lost its data has no vote until every attempt is over that was under way: that
// is proof of memory, see memory.
//
// # What is outside
//
// Three clients that ask all nodes at once for two permits, without faults, have too many states to
// visit. There the test takes steps at random; three clients that turn to the coordinator are
// searched.
//
// What a crashed client leaves behind costs its TTL, as with the mutex. Until then two waiters may
// split the votes of what is left again and again, as two waiters for a mutex may, until a random
// pause sets them apart; one alone does not go round in circles (Calm.Crashes). A waiter for a slot
// that the coordinator believes taken by a crashed minority learns of it at the end of that key's
// time, or by its poll.
package permit
