// Package shared is a model of shared locks over a quorum of independent nodes, and a search
// through everything that can happen to them.
//
// What a node does is spec.Entry. [Explore] tries every order of messages, losses, expiries and
// faults within its limits. The tests also give it wrong rules, and require the search to find
// each. What a resource does with the tokens is fence.RWGate.
//
// # The protocol
//
// A write lock is the mutex. For readers, a node keeps a sorted set beside the key. A member's
// score is when it expires, by the node's clock. While one is alive, the key is the marker, a
// constant that is nobody's value, and expires with the member that lives longest. So every SET NX
// respects readers, another library's too, and no compare-and-delete removes the marker.
//
//   - Entry.AcquireRead adds a member, unless the key is a writer's or a writer has announced
//     itself. A reader whose turn has come passes that announcement.
//   - Entry.ExtendRead votes if the member is alive. If it is not, and no writer has the key,
//     Entry.HealRead brings it back, which is no vote. An intent makes no difference to either.
//   - Entry.ReleaseRead removes the member. The last one hands the key over: to a writer, or to all
//     readers up to the next writer. A writer that stops waiting lets those readers in, too.
//   - A waiting reader whose turn has come serves the readers at the front of the list: a real
//     release serves only so many (Entry.WaitRead).
//   - An intent keeps new readers out while a writer waits. The writer sets it where it is refused,
//     or alone (Entry.Intend), and takes it back when it is granted the key or leaves. An intent
//     that is late delays readers until it expires. Exclusion does not depend on it.
//
// Tokens: a writer's is that of the mutex. A reader's grant moves the counter up to the reader's
// timestamp, not past it. Its token t is a number such that a quorum granted it at most t, and a
// quorum is at or above t; Entry.RaiseRead brings nodes there.
//
// # Why it is right
//
// What a node promised a client is there for as long as it promised: a member that is alive implies
// the marker, with no less time than the member has. So a node never has a live reader and a
// writer's key at once. A quorum of a reader's and one of a writer's share a node. A client
// believes in a vote for no longer than the node promised it (S2 in docs/safety.md). So nobody
// holds the lock beside a writer.
//
// Order of tokens: let W be a writer with the token T, and r a reader with t. If W was acquired
// before r began, some node was at T or above before it granted r, and was among those that granted
// at most t: so t >= T. If r was acquired before W began, some node was at t or above before it
// confirmed T, and confirms only numbers above its counter: so T > t. Neither looks at keys or
// clocks. With clocks as assumed, the same holds for any two locks that do not overlap, whenever
// their attempts began: on the node in common, the vote of the earlier lock ended before the later
// one's began, or the other way round, and then that vote had expired when its lock was acquired.
//
// # Time
//
// Each node has a clock of its own, which ticks at any step, as often as it likes. A tick takes one
// off all that the node keeps. Only this is assumed of time: a client holds the lock for no longer
// than a quorum of the votes that it counts have not expired. That allows more than real clients
// do, whose validity counts from the start of one round. With [Config.Timeless], keys and members
// vanish at any step, clients do not learn of it, and only tokens are looked at.
//
// # What stands for what
//
// There is one name. A client's next attempt begins when nothing is left of its last one; several
// at once are several clients. A request may be executed at any time from the beginning of its
// attempt, and again, or never. With [Config.Late], it also arrives after the end of the attempt,
// until the release of that attempt has been executed at the node or is lost: on one connection
// nothing comes behind it. Another library's messages do. A crash is an end whose releases are
// lost. A process that listens for hand-overs may be found alive or dead by every release.
//
// A client that waits has a place at the first nodes ([Config.Coordinators]). A writer that waits
// sends intents at any time, as often as it likes. With [Config.Strays], those of writers that have
// long left come at any time, too. Intents and lists may vanish at any step. A tick is the unit of
// all times; grace is one.
//
// # What the search found
//
// Each of these was found wrong, and has a test:
//
//   - A marker whose time to live is a difference, rounded or computed between two readings of the
//     clock: then a member outlives it by a tick, and a writer holds the lock beside a reader. The
//     key must expire at the same number as the member (PEXPIREAT).
//   - A reader that is handed a vote, and is then kept out everywhere else by the intent of the
//     writer behind it. It must say that its turn has come.
//   - Members that stay when the key alone was deleted (ForceUnlock, eviction): the next reader's
//     marker brings them back, and their extensions vote, although a writer may have come and gone.
//     A script that finds no key drops all members, and the last reader deletes nothing but the
//     marker.
//   - A hand-over that gives a reader the grace although it has more: one that was healed at the
//     node while its place on the list was forgotten.
//   - A writer that leaves its intent when it was handed the key and does not want it, or when the
//     intent came after it was granted the key: then readers wait for nobody. So a writer that may
//     have announced itself always takes its intent back.
//   - A writer that leaves the list and tells nobody: the readers that wait only for it would poll.
//   - An extension that depends on an intent: one that is refused because of it ends the locks that
//     the writer waits for before their time. Only an admission looks for intents, and an admission
//     that does not lets new readers in for as long as they keep coming.
//   - A reader that takes the largest of its grants and raises nothing, or any number that a quorum
//     is at or above; and a raise that is refused where the counter is there already, by which
//     readers make each other give up.
//
// A heal that votes does not break exclusion, as long as a verdict counts only while the lock is
// held (S4 in docs/safety.md). It breaks the promise that the node kept the lock: the holder would
// not learn that a majority has forgotten it, and that its token may be stale.
//
// # What is outside
//
// Memory that is lost (internal/proof/search/memory), faulty clocks and counters
// (internal/proof/search/fence), sets of names, and adoption. When a node loses a lock's key alone,
// exclusion is not looked at: a lock on a bare majority does not survive that.
package shared
