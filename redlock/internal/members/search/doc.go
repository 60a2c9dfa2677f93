// Package search goes through everything that can happen while the list of a cluster's members
// changes. This text is the design of that; what it calls the code is package core.
//
// Every step of it is decided by package core: whether a master promises, what is proposed, who is
// told, who waits and rejoins, and by which version a client counts. The tests have the world
// around that: clients and masters as small numbers, what becomes of messages, and faults. They try
// every order of votes, promises, acceptances, tellings and faults within the limits of a Config.
// What must be found are mistakes in core, and these are seeded bugs. How a new cluster is formed
// is gone through in package core itself (TestNewClustersShareNoMaster).
//
// # Words
//
// A membership, or text, has a number (the version), a random name, and its members. The first one
// has number 1. A master keeps the text that it was told as chosen, a ballot that it promised for
// the next one, and what it accepted for that with which ballot. A text counts once a majority of
// its own members name it in active markers.
//
// # The protocol
//
// Counting. A quorum is a majority of the members of the text that the client believes. A vote
// counts only if the marker that is read behind it is active and names that text, or the one
// before, and the master is its member. A client that learns of a newer text drops its votes and
// begins anew. It believes any text that counted, however long ago: it may have slept.
//
// Choosing. The next text is chosen by the members of the present one, with promise and accept
// (Paxos). Who proposes takes a ballot that nobody has had, and asks for promises. A master
// promises if it was told this text, and the ballot is larger than any that it promised. With a
// majority of promises, the proposer goes on with what was accepted under the largest ballot,
// otherwise with its own change, which adds or removes one member. A master accepts if it promised
// nothing larger, and as the same incarnation. What a majority accepted is chosen. Nothing shows of
// it until it is told.
//
// Waiting. A master accepts nothing until every attempt is over that was under way when it was told
// its text: MaxTTL, by its own clock, plus drift.
//
// Nobody is left behind. Who proposes a change of its own has seen all members named in active
// markers of the present text. If one is missing, it may only remove that one. To finish what was
// begun needs no such look. But who has seen that something was begun proposes nothing else by that
// look: if the master that accepted it gives no promise, the next look is about the own change.
//
// Finishing. A member that was told the next text promises nothing more, but that text was chosen:
// it stands for an acceptance above all ballots. So with a majority that was told it or promises,
// the others are asked to accept it, without a wait, and also those that are unlearned (below).
// When a majority holds to it, it is told. Without the last look, a text that its majority
// forgot could be told beside another one that was chosen since.
//
// Telling. Who chose a text, or knows that it counted, tells it to its members, and to masters that
// name an older one. A smaller number is not told, and the same one only of a text that counts now:
// then the other text of that number, forgotten by its majority, does not. Nor is a text told to a
// master that accepted another one of that number: it would hide what it accepted. To be told ends
// what was promised and accepted. A new member votes at once.
//
// Forgetting. A master that forgot does not vote for W: MaxTTL, and 4 s at least, because what
// others do about members must be over by then, and takes round trips. Then it rejoins as the
// member that it was, by its recorded endpoint, and never because a member is missing. Who lets it
// rejoin goes through a first phase under the newest text that it knows to count, or that a master
// was told. An answer of one other member that remembers the text is enough to vote again, even of
// one that is unlearned.
//
// To promise and accept again takes more. What it accepted may have been
// chosen by a majority with it, of which only one other need be left. So it must have learned from
// n−q+1 of the n−1 others, of n members with a quorum of q: that is a majority of the others. Until
// then it is unlearned: it votes, is told, and takes no part in the choice. A first phase under a
// later ballot teaches it. It stays unlearned when it is told a newer text. Where every
// member that remembers anything of the choice has told it, there is nothing else to learn.
//
// Ballots end. A promise is an attempt like that for a lock: who has it must have done with it,
// acceptances and all, before a master that gave it may be back. So a proposer sends nothing under
// a ballot later than W/2 after it began, and a master accepts nothing under it later than W/2
// after it promised, by its own clock. Otherwise this happens (Rules.LongBallots): A promises
// ballot 3 and forgets. It learns from B and C under ballot 1, before ballot 3 comes to B. With
// the promises of A and B, X is accepted at B under 3. Meanwhile A and C choose Y under 2. The
// next proposer finds X under the larger ballot, and B and C choose it, too. It is not enough that
// an acceptance counts only from the incarnation that promised: A accepted nothing under 3. With
// this rule it is not needed either, and no first phase that began before a master forgot lets it
// rejoin.
//
// Lives. A marker says how many times its master forgot. Any client copies a later life of a member
// into the markers of others. A vote, promise or acceptance counts only if no marker that was read
// in the same attempt names a later life of its master. Who finds a marker of a life that is over
// makes the master wait, in a later life than all that are known.
//
// Following. A client that counted by a text, and slept, hears the members of that at first. While
// no majority of them names it, the client also asks the members of the newest text that any of
// those was told, until there is none that is newer. A text that counts differs in one member from
// the one before, of which all members were told it before the next was chosen: so whoever was told
// a text leads to others that were told a later one, as long as one of them remembers. So it finds
// what a client would that hears all masters. What it believes is what counted, as ever.
//
// Looking after. A client looks after the text by which it counts, as long as a majority of its
// members is there that could choose the next one. Otherwise that is the newest text that one of
// its members remembers: there, masters rejoin and are told, and nothing is chosen after the older
// one. A member that names a text from before the one before, where the newest does not count,
// rejoined by the word of a removed master (below). It waits again, as one that forgot, because
// what it granted since may be in use.
//
// # Why it is right
//
// Any majority of a text and any majority of the next one share a master, because they differ in
// one member. If two clients count under the same text or under neighbours, one master has the key
// of one of them only.
//
// A text that is two ahead is accepted by a majority of the one in between, and only by masters
// that were told that one MaxTTL ago. Each majority of the oldest text has one of them. So what was
// counted there is over, and nothing can be counted there any more, as long as these masters
// remember. One that forgets rejoins where another one is that remembers. As all members were told
// the text in between, nobody is left there who names the oldest one, but a master that was
// removed.
//
// That is the case outside of the promise (Config.Ahead): a master that was removed without being
// told comes back with its memory, and a forgetful one rejoins by its word alone, cut off from
// every member of the newest text. Who hears one of these looks after what that one was told. When
// all are heard again, the forgetful one waits, and rejoins there (Config.Rejoined).
//
// A marker of an earlier life that comes back may name any version, and its master may have lost
// any key. But if every majority with it has another member that was shown the later life before
// the attempt began, the attempt reads that, and neither counts the vote nor chooses with it. An
// attempt that began before may have the other member's vote already (Config.Meanwhile).
//
// # A new cluster
//
// A client sees all masters of its list new. It draws a cluster, and lets them join, each with a
// compare-and-set on the marker that it saw: first the one with the smallest run id, then the
// others at once, whose joining may come in any order, and late. Where one is refused, or does not
// answer, it gives up this cluster for ever, and sets back what has joined. When all have joined
// within F/4, it makes them active, none later than F/2 after the time that it notes as that of its
// joining: when it was seen new, within a second of all others. F is MaxTTL, and 8 s at least: no
// lock is held meanwhile, and all of it takes round trips.
//
// A master that joined F ago and is not active was left behind. Who finds it asks all others of its
// text, within a second. If one is active, it is told. If none is, it is new again. That is safe
// because no first activation comes after that time: the last one is F/2 and a second after the
// time of any joining, and that look F less a second.
//
// So no master belongs to two clusters of which both have an active member: each had all of its
// masters at one time, and one that was set back belongs to a cluster that will never be active.
// Most of the others are not enough to ask, nor a majority to join.
//
// # What the search says besides
//
// Votes need not be dropped when a client learns of a newer text (Rules.KeepsVotes): the key that
// was set excludes under both texts. So a vote also counts although its marker names the text
// before. A newer text in the marker must not be overlooked.
//
// # MaxTTL
//
// A change may be of MaxTTL alone. Nothing above needs more than that whoever waits does so for the
// longest lock that may have been granted under the text or the one before. A shorter MaxTTL is in
// force at once: who waits knows the longer one, which the text has, too. A longer one is in force
// only when all members were told it. Otherwise one that granted such a lock, and forgot, could
// rejoin at the text before by the word of a member that was told no other, after the shorter wait,
// and with that one be a majority. When all were told it, nobody is left who names the text before,
// as above. MaxTTL is not in the search.
//
// # What stands for what
//
// There is one lock. What a master is asked follows from what it says at that moment: it does
// nothing if it says something else when it is asked. An attempt begins with its first vote, and
// may end at any step. Time is what attempts and ballots are still under way: a wait is over when
// all of those are that were under way when it began. A client with a quorum holds the lock at
// once. Keys of attempts that are over disappear. A vote and its proof are one step: what the
// marker says afterwards is what counts, and the key that was set before it can only refuse
// others. Renewals are attempts. Messages that are lost are steps that do not come. Proposals of
// the same members are one text. A life is a number: the code adds a random name, so that two
// lives that clients began without knowing of one another are told apart.
//
// # What is outside
//
// Memory itself is in package memory. Tokens, MaxTTL that changes, how a client finds and believes
// its first text, and whether a change is completed in the end are not in these searches. Masters
// that all forget are a new cluster.
package search
