package driver_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// said is a sentence of a doc comment, and the check that looks whether it is true.
type said struct{ of, sentence, check string }

// promises are what the documentation says, and what the driver looks at. The names of checks are
// those of run.promise.
var promises = []said{
	// redlock: acquiring
	{"redlock.New", "The only error is ErrInvalid", "New takes what is valid"},
	{"redlock.Locker.TryLock", "TryLock acquires the lock if it is free", "a free name is had at once"},
	{"redlock.Locker.TryLock", "TryLock returns within the node timeout, or when ctx ends; within two where it takes a second round", "acquiring in time"},
	{"redlock.Locker.TryLock", "Errors: ErrTaken, ErrNoQuorum and ErrNoValidity in a *QuorumError; ErrInvalid; ErrClosed; and the error of a ctx that ended.", "errors of acquiring"},
	{"redlock.Locker.TryLock", "ErrTaken, ErrNoQuorum and ErrNoValidity in a *QuorumError", "a QuorumError"},
	{"redlock.Locker.TryLock", "After any error, whatever was or may have been granted is being released.", "nothing is left behind"},
	{"redlock.Locker.TryLock", "After any error, whatever was or may have been granted is being released.", "a failed call leaves nothing"},
	{"redlock.Locker.TryLock", "After any error, whatever was or may have been granted is being released.", "no lock with an error"},
	{"redlock.Locker.Lock", "Lock acquires the lock, and waits for it as long as ctx allows", "waiting until ctx ends"},
	{"redlock.Locker.Lock", "ctx bounds only the wait, not the lock", "a majority keeps a lock for its validity"},
	{"redlock.Locker.LockAll", "LockAll acquires all names as [Locker.TryLockAll] does", "the names of a lock"},
	{"redlock.Locker.TryLockAny", "[Lock.Name] says which", "the names of a lock"},
	{"redlock.Locker.TryLockAny", "TryLockAny acquires the first of the names that is free", "a choice takes one name"},
	{"redlock.Locker.TryRLock", "Any number of readers hold a name together.", "readers"},
	{"redlock.Locker.TryRLock", "they exclude readers and each other", "exclusion"},
	{"redlock.Locker.RLock", "While a writer waits, readers that come later wait behind it.", "who gives up lets readers in"},
	{"redlock.Semaphore", "So there are never more holders than slots", "permits"},
	{"redlock.Locker.Semaphore", "Semaphore returns the semaphore of a name with 1 to 1,024 permits.", "Semaphore takes what is valid"},
	{"redlock.Locker.Semaphore", "The number can change while nobody holds a permit", "the number of permits changes while nobody holds one"},
	{"redlock.Locker.Semaphore", "Otherwise such a request fails with ErrInvalid.", "another number of permits is refused"},
	{"redlock.Locker.Semaphore", "The nodes keep it until the last permit is given back", "the number of permits goes with the last"},
	{"redlock.Locker.Semaphore", "The nodes keep it until the last permit is given back", "nodes keep the number of permits while one is held"},
	{"admin.Operator.InspectSemaphore", "It tells the number of permits that the nodes know", "the number that InspectSemaphore tells"},
	{"redlock.Locker.Do", "The context of fn ends when ctx ends or the lock is lost", "the context of Do"},
	{"redlock.Locker.Do", "The lock is released when fn returns or panics; a panic continues", "Do releases"},
	{"redlock.Locker.Do", "With errors.Is, the error of Do matches the error of fn, ErrLost if the lock was lost meanwhile", "the error of Do"},
	{"redlock.Locker.Do", "If the lock cannot be acquired, fn is not called and the error is that of Lock.", "Do without its lock"},
	{"redlock.WithoutRenewal", "By default a lock is renewed in the background as long as it is held", "a lock that is renewed lasts"},
	{"docs/safety.md", "It is free right after, unless it is still held", "a minimum hold ends in time"},
	{"redlock.WithMinHold", "nobody can acquire the name until then", "minimum hold"},
	{"redlock.WithMaxHold", "WithMaxHold sets how long the lock can be held at all, renewed and extended or not", "the longest hold"},
	{"redlock.WithHistory", "who had the lock, from when to when, and who lost it and why", "the history tells how locks ended"},
	{"admin.Entry", "of a miss, whoever had it instead, if that is known", "the history tells who had it instead"},
	{"admin.Operator.History", "A run is one entry", "a run is one entry of the history"},
	{"redlock.WithTTL", "WithTTL sets how long nodes keep the lock without hearing from us", "a lock is free when its TTL has passed"},
	{"redlock", "a release hands it to the one that has waited longest", "a release hands over"},
	{"redlock", "It is valid for its time to live, less the time that acquiring it took and an allowance for clock drift.", "the validity that the TTL gives"},
	{"redlock.WithDrift", "rate·TTL + fixed is subtracted from the validity of every lock", "validity below the TTL"},
	{"redlock.WithTTL", "WithTTL sets how long nodes keep the lock without hearing from us", "validity below the TTL"},
	{"redlock.Lock.Fence", "Fence returns the fencing token of the lock, or 0 without [WithFencing].", "Fence with fencing only"},
	{"redlock.Lock.Fence", "Of two locks of one name, the one that was acquired later has the larger token", "tokens"},

	{"docs/safety.md", "We never touch another client's key", "what others wrote stays"},
	{"docs/safety.md", "No script fails on what others wrote into the keys beside a lock's", "nobody loses a lock by what others write beside it"},
	{"docs/safety.md", "leaves tokens unique, in order and near the time", "tokens are near the time"},

	// redlock: errors
	{"redlock.ErrTaken", "ErrTaken means that someone else holds the lock, or part of it", "ErrTaken means that somebody has it"},
	{"redlock.ErrTaken", "a quorum of nodes answered, and did not grant", "votes of ErrTaken"},
	{"redlock.ErrTaken", "someone else holds the lock", "ErrTaken"},
	{"redlock.ErrNoQuorum", "ErrNoQuorum means that too few nodes answered to decide anything.", "votes of ErrNoQuorum"},
	{"redlock.ErrClosed", "ErrClosed means that the locker was closed.", "ErrClosed"},
	{"redlock.ErrInvalid", "ErrInvalid means a bad argument, which the text names.", "ErrInvalid"},
	{"redlock.ErrInvalid", "ErrInvalid means a bad argument, which the text names.", "mistakes are ErrInvalid"},
	{"redlock.ErrLost", "ErrLost means that we held the lock and no longer do, although we did not release it.", "ErrLost is final"},
	{"redlock.QuorumError", "the error of a context that ended", "errors of contexts"},
	{"redlock.QuorumError", "Its votes are those that decided that", "the votes of an error decided it"},
	{"redlock.QuorumError", "QuorumError describes an operation that asked all nodes and did not get a quorum.", "votes of a QuorumError"},

	// redlock: a lock
	{"redlock.Lock.Done", "when it is released, or at the end of its validity by the local clock, whatever the network does", "Done in time"},
	{"redlock.Lock.Err", "Err returns nil while the lock is held, then ErrLost with the reason, or ErrReleased.", "the error of a lock that ended"},
	{"redlock.Lock.Err", "Err returns nil while the lock is held", "Err says what Remaining does"},
	{"redlock.Lock.Context", "a child of parent that ends when the lock is no longer held", "the context of a lock"},
	{"redlock.Lock.Extend", "Extend gives the lock a new TTL, from now on, with one round", "Extend gives the TTL"},
	{"redlock.Lock.Extend", "with one round", "extending in time"},
	{"redlock.Lock.Extend", "or the validity ended first", "the validity ends while a machine sleeps"},
	{"redlock.Lock.Extend", "a lost lock never comes back", "a lock never comes back"},
	{"redlock.Lock.Extend", "Errors: ErrLost when a quorum says that it does not have the lock, to this extension or to the last ones, or the validity ended first", "errors of Extend"},
	{"redlock.Lock.Extend", "ErrReleased, ErrNoQuorum in a *QuorumError when too few nodes answered or they disagree", "calls of a lock that ended"},
	{"redlock.Lock.Extend", "Errors: ErrLost when a quorum says that it does not have the lock", "Extend in calm times"},
	{"redlock.Lock.Verify", "Errors: ErrLost when a quorum does not hold it (the lock is lost from then on), ErrReleased", "errors of Verify"},
	{"redlock.Lock.Verify", "and the error of a ctx that ended", "verifying in time"},
	{"redlock.Lock.Unlock", "at the latest at the node timeout", "unlocking in time"},
	{"redlock.Lock.Unlock", "it ends when a quorum has answered", "a call ends once a quorum has answered"},
	{"redlock.Lock.Unlock", "It returns nil when a quorum confirmed that it deleted the lock", "a quorum has deleted what Unlock confirms"},
	{"redlock.Lock.Unlock", "Called again after that, it asks the nodes anew, and returns nil once a quorum has answered", "Unlock again asks anew"},
	{"redlock.Lock.Unlock", "Otherwise, called again, it does nothing and returns the same.", "Unlock again does nothing"},
	{"redlock.Lock.Unlock", "It returns ErrLost when the lock was lost before", "a lost lock stays lost"},
	{"redlock.Lock.Unlock", "or a quorum no longer had it", "Unlock tells of a loss"},
	{"redlock.Lock.Unlock", "and a *QuorumError with ErrNoQuorum when too few nodes answered", "errors of Unlock"},
	{"redlock.Lock.Unlock", "Unlock releases the lock on every node", "Unlock ends the lock"},
	{"redlock.Lock.Unlock", "Nodes that cannot be reached get the release when they are back", "a master that is back gets the release"},
	{"redlock.Lock.Unlock", "It returns nil when a quorum confirmed that it deleted the lock", "Unlock in calm times"},

	{"docs/safety.md", "Then two clients may hold a lock until the first one's next round", "a holder is told with its next round"},
	{"docs/safety.md", "An adoption stands, or the old holder keeps its lock, or nobody has the lock until its TTL ends", "an adoption ends no lock before its holder knows"},
	{"docs/safety.md", "No wait depends on a message, another client or one master", "no wait depends on one master"},
	{"docs/safety.md", "A release never arrives before the SET of its attempt", "nothing arrives behind a release"},
	{"docs/safety.md", "An extension never arrives after the release of its lock", "nothing arrives behind a release"},
	{"docs/design.md", "A reply that is too large, unasked for or of the wrong kind ends the connection", "a reply that is too long is not waited for"},
	{"docs/safety.md", "A holder is told when a quorum has forgotten its lock: with its next round, or within a second if nothing is sent", "the holder of a forgotten lock is told"},

	// redlock: hooks and statistics
	{"redlock.Hooks", "For one lock: Acquired, then Waited if Lock did not get it at once, then Renewed any number of times, or Unrenewed, and finally Lost or Released.", "the order of hooks"},
	{"redlock.Hooks", "finally Lost or Released", "every lock ends once"},
	{"redlock.Hooks", "Refused is called for each round that asked all nodes and did not get the lock", "hooks and statistics: Refused"},
	{"redlock.Hooks", "err as TryLock returns it", "Refused tells why"},
	{"redlock.Hooks", "Err is what it would return if it ended now.", "Failed tells why"},
	{"redlock.Hooks", "err as Lock.Err returns it", "Lost tells what Err does"},
	{"redlock.WithLogger", "locks that are lost", "losses are logged"},
	{"redlock.Hooks", "d is from the call of Lock until it was acquired", "Waited tells how long"},
	{"redlock.Hooks", "Err is a *QuorumError with what each node said.", "Unrenewed tells why"},
	{"redlock.Hooks", "err is nil if the node is up and its vote counts; otherwise it says why not.", "Node tells of changes"},
	{"redlock.Stats", "rounds for a lock that a quorum did not grant, those of waiters included", "hooks and statistics: Taken"},
	{"redlock.Stats", "rounds for a lock that too few nodes answered", "hooks and statistics: NoQuorum"},
	{"redlock.Stats", "rounds for a lock that won too late", "hooks and statistics: NoValidity"},
	{"redlock.Stats", "locks acquired, including those of Adopt", "hooks and statistics: Acquired"},
	{"redlock.Stats", "locks acquired, including those of Adopt", "Stats.Acquired"},
	{"redlock.Stats", "extensions that won", "hooks and statistics: Renewed"},
	{"redlock.Stats", "locks that ended without being released", "hooks and statistics: Lost"},
	{"redlock.Stats", "how many such calls did not get the lock at once", "hooks and statistics: Waiting"},
	{"redlock.Stats", "votes that our releases gave to waiters, here or elsewhere", "hooks and statistics: Handed"},
	{"redlock.Stats", "locks held now", "Stats.Held and Stats.Waiting"},
	{"redlock.Stats", "of the one that is held for longest, but for elections; 0 without one", "the age of the oldest lock"},
	{"redlock.Stats", "of the one that waits for longest, but for elections; 0 without one", "the age of the oldest wait"},
	{"redlock.Stats", "notes of WithHistory that were dropped", "notes are dropped where they are taken"},
	{"redlock.Stats", "notes of WithHistory that were dropped, or that no quorum of nodes took", "notes that are dropped are counted"},
	{"redlock.NodeStats", "Memory is what the node's memory marker says", "what a master remembers"},
	{"redlock.NodeStats", "QuarantinedFor is for how long its vote will not count, as far as is known; 0 if it counts.", "for how long a vote does not count"},
	{"redlock.Stats", "Stats is what a Locker has done and the state of its nodes, at one moment.", "Stats"},
	{"redlock.Stats", "how many votes make a quorum", "Stats.Quorum"},

	// redlock: the Locker, and what operators call
	{"redlock.Locker.Close", "It takes at most about two node timeouts, plus up to a second", "Close in time"},
	{"redlock.Locker.Close", "A second Close waits for the first and returns the same.", "a second Close"},
	{"redlock.Locker.Close", "The error is nil, or ErrUndelivered", "the error of Close"},
	{"redlock.Locker.Close", "with a [*NodeError] for each member that has still not answered", "the error of Close tells why"},
	{"redlock.Locker.Close", "Close releases all held locks", "after Close nothing is held"},
	{"redlock.Locker.Close", "its lock is released when it has returned", "Close leaves the lock of a function"},
	{"redlock.Locker.Close", "stops all background work of the Locker", "Close ends all connections"},
	{"redlock.Locker.Close", "Close releases all held locks", "the state of a lock at the end"},
	{"redlock.Locker.UnlockAll", "returns nil when a quorum confirmed each", "UnlockAll in calm times"},
	{"redlock.Locker.UnlockAll", "returns nil when a quorum confirmed each", "a quorum has deleted what Unlock confirms"},
	{"redlock.Locker.UnlockAll", "UnlockAll releases all locks that this Locker holds", "UnlockAll releases all"},
	{"redlock.Locker.UnlockAll", "Otherwise its error has those of [Lock.Unlock]", "errors of UnlockAll"},
	{"redlock.Locker.Ready", "Ready returns nil once a quorum of nodes answers.", "Ready once a quorum answers"},
	{"redlock.Locker.Ready", "It keeps asking until ctx ends", "Ready until ctx ends"},
	{"redlock.Locker.Ready", "the error then says what is wrong with each node (ErrNoQuorum)", "errors of Ready"},
	{"admin.Operator.Inspect", "Inspect asks every node who holds a lock.", "Inspect tells the holder"},
	{"admin.Status", "the owner in that value, see WithOwner", "Inspect tells the owner"},
	{"admin.Since", "the attempt may have waited from then on, so the lock is held for less long", "Inspect tells that a lock was waited for"},
	{"admin.Operator.Inspect", "It returns what the nodes have answered by the node timeout or the end of ctx.", "inspecting in time"},
	{"admin.Operator.Inspect", "ErrNoQuorum in a *QuorumError", "errors of Inspect"},
	{"admin.Status", "a quorum of nodes holds nothing", "what Inspect tells"},
	{"admin.Answers", "of the election, the newest on record first; none if there is no election", "an election is told with its terms"},
	{"admin.NodeStatus", "processes that wait for the lock at this node", "Inspect tells who waits"},
	{"admin.NodeStatus", "processes that wait for the lock at this node", "only waiters are on a list"},
	{"redlock.NodeStats", "nil if it does", "masters that are well vote again"},
	{"admin.Operator.ForceUnlock", "A holder that is not gone learns of it at its next round", "a forced holder learns with its next round"},
	{"admin.Operator.ForceUnlock", "ForceUnlock returns nil when a quorum of nodes has deleted the lock, handed it over or held nothing.", "errors of ForceUnlock"},
	{"admin.Operator.ForceUnlock", "ForceUnlock returns nil when a quorum of nodes has deleted the lock", "forcing in time"},
	{"admin.Operator.ForceUnlock", "Values that were seen (Status.Value) are the only ones that it takes away", "who was not seen keeps its lock"},
	{"admin.Entry", "changes of the members", "the log tells of changes"},
	{"admin.Operator.ForceUnlock", "The log of the nodes gets an entry of it", "the log tells of changes"},
	{"admin.ErrChanged", "ErrChanged means that a lock has another holder than the one from which it was to be taken.", "who was not seen keeps its lock"},
	{"admin.Operator.Force", "Force is [Operator.ForceUnlock], and tells what it took away.", "Force tells what it took away"},
	{"admin.Operator.AwaitVotes", "AwaitVotes waits until it is known of every node that it votes, or will not vote soon", "an operator knows who votes"},
	{"admin.Operator.List", "List returns the locks that any master holds under names that match a pattern of Redis", "List tells what is held"},
	{"admin.Operator.Scan", "Scan looks for locks at all masters, and asks about what it finds", "Scan asks about what it finds"},
	{"admin.Operator.Ask", "Ask asks about a name as a lock, a semaphore and an election", "Ask tells of a name"},
	{"admin.Vitals", "Clock is how far its clock is ahead of ours, give or take the round trip.", "each master has its vitals"},
	{"admin.OnlyLooks", "by itself, nothing changes at the masters", "who only looks changes nothing"},
	{"admin.Operator.Init", "It returns nil once all nodes vote.", "Init where all vote"},
	{"admin.Operator.Close", "The Locker of [Of] stays open, and so does its operator.", "an operator that is closed"},
	{"redlock.Locker.Adopt", "Its handle is lost at its next round", "an old holder learns of the adoption with its next round"},
	{"redlock.Locker.Adopt", "Errors: ErrLost in a *QuorumError when a quorum does not hold that value, ErrNoQuorum, ErrNoValidity, ErrInvalid, ErrClosed, and the error of a ctx that ended.", "errors of Adopt"},
	{"redlock.Locker.Adopt", "and the error of a ctx that ended", "adopting in time"},
	{"admin.Cluster.Members", "Members asks the masters for the list, and returns it as a majority of its members tells it.", "what Members tells"},
	{"docs/safety.md", "There is one list of members per version", "one list for each version"},
	{"admin.Cluster.Members", "Members asks the masters for the list", "a new cluster has its masters"},
	{"admin.Cluster.Members", "Otherwise the error is a *QuorumError with ErrNoQuorum", "errors of Members"},
	{"admin.Cluster.Members", "Members asks the masters for the list", "Members until ctx ends"},
	{"admin.Cluster.Add", "or when ctx ends", "a change ends with its context"},
	{"admin.Cluster.Remove", "To remove what is no member is ErrNotMember.", "errors of a change"},
	{"admin.Cluster.Remove", "Remove removes a member by its ID", "Remove removes"},
	{"admin.Cluster.SetMaxTTL", "SetMaxTTL sets the longest TTL of the cluster's locks", "a change in calm times"},
	{"admin.Cluster", "so all clients count by the same one", "all agree about the members"},
	{"docs/operations.md", "each member must know the last change before the next one begins", "a dead member stops all changes but its removal"},
	{"docs/operations.md", "each member must know the last change before the next one begins", "all know the last change when the next one begins"},
	{"docs/operations.md", "each member must know the last change before the next one begins", "versions follow one another"},
	{"docs/operations.md", "one that is down is dialed until it was told", "a removed master is told"},
	{"docs/operations.md", "it is in force at once for new locks and for renewals", "a lower MaxTTL is in force for renewals"},
	{"docs/safety.md", "whoever changes it and whoever dies meanwhile", "a change that was begun is finished"},
	{"docs/operations.md", "Between two changes, and before the first of a new cluster, MaxTTL passes", "MaxTTL passes between two changes"},
	{"docs/safety.md", "There is one list of members per version", "no master goes back to an older version"},
	{"docs/operations.md", "Raised, it is in force when all members know it, so not while one is down", "a longer MaxTTL is in force when all know it"},
	{"docs/operations.md", "a client that may use it counts these masters after MaxTTL", "who may use INFO counts what others marked"},
	{"docs/troubles.md", "this version cannot tell whether it remembers", "a master that a later version marked has no vote"},
	{"redlock.WithCluster", "with it, masters that lost everything are never taken for a new cluster", "masters that lost everything are not taken for a new cluster"},
	{"docs/operations.md", "without that a program goes on, but does not start again", "a list without a majority of the members leads to nothing"},
	{"docs/operations.md", "in one list grant nothing (`ErrInvalid`)", "masters of two clusters in one list grant nothing"},

	// election
	{"election.New", "New returns a candidate for the leadership of that name.", "New takes what is valid"},
	{"election.Election.IsLeader", "IsLeader reports whether this Election leads: lead runs and its context has not ended.", "IsLeader while lead runs"},
	{"election.Election.Leader", "The leader itself knows without asking.", "the leader knows itself"},
	{"election.Election.Leader", "Leader returns who leads.", "a leader is on record"},
	{"election.Leader", "for others what the masters say", "how long a leadership lasts"},
	{"election.Election.Run", "context.Cause says why", "the cause of the end of a term"},
	{"election.Election.Run", "Run returns nil when ctx has ended", "Run returns nil at the end"},
	{"election.Election.Run", "Further errors: ErrInvalid, ErrRunning if Run has not returned yet, [redlock.ErrClosed]", "errors of Election.Run"},
	{"election.Election.Resign", "In lead, Resign must be called with lead's context, or a child of it: then it returns nil at once, even if the leadership was over already", "Resign in lead"},
	{"election.Election.Resign", "It returns nil when a majority of the masters has confirmed the release, or there was nothing to release", "Resign from outside"},
	{"election.Election.Resign", "or there was nothing to release", "Resign without a term"},
	{"election.Election.Resign", "Called again, it tells what has become of the release by now", "Resign again tells of the release"},
	{"election.Election.Resign", "or there was nothing to release", "Resign in time"},
	{"election.Election.Watch", "in order", "Watch tells terms in order"},
	{"election.Election.Watch", "until ctx ends or the Locker is closed", "Watch until its end"},

	{"election.ErrRunning", "ErrRunning means that this Election runs already.", "an Election runs once"},
	{"election.ErrInvalid", "ErrInvalid means a bad argument, which the text names.", "mistakes of an election are ErrInvalid"},
	{"election.WithLockOptions", "With [redlock.WithMaxHold] a term ends after that time", "a term ends with its longest hold"},

	// pool
	{"pool.Trouble", "docs/troubles.md has them all.", "what is wrong with a node has a row"},
	{"pool.Node.Drain", "Drain waits until every release has been delivered, ctx ends or the node is closed.", "Drain waits until all is delivered"},
	{"pool.Stats", "why the node is Down; nil in other states", "what a node says"},

	// fence
	{"fence.Gate.Admit", "Call it before reading what a write will depend on: no older token is admitted from then on.", "a gate remembers what it admits"},
	{"fence.Gate.Admit", "Admit returns nil and remembers the token if it is at least as large as all that were seen before.", "a gate takes the newest token"},
	{"fence.Gate.Admit", "Otherwise it returns ErrStale", "a gate refuses older tokens"},
	{"fence.RWGate.Write", "Nothing else passes while write runs", "nothing else passes while one writes"},
	{"redlock.Lock.Names", "in the order in which they were given", "the names of a lock"},
	{"fence.Gate.Do", "No other token passes while write runs", "no other token passes while one writes"},

	// queue
	{"queue.Queue.Pop", "A task is returned at most once for each time that it is enqueued", "a task is popped once"},
	{"queue.Queue.Run", "So no task is lost", "no task is lost"},
	{"queue.Queue.Run", "It returns an error as soon as the queue or the Locker is closed", "errors of Queue.Run"},
	{"queue.Queue.Run", "as soon as the queue or the Locker is closed and the handlers have returned", "Run ends with Close"},
	{"queue.WithMaxAttempts", "how often a task is begun before it becomes a dead letter", "attempts are bounded"},
	{"queue.Queue.Enqueue", "has all its attempts before it again", "attempts begin anew with a task that is enqueued again"},
	{"queue.Queue.Run", "Every lease is an attempt", "every lease is an attempt"},
	{"queue", "A member that somebody else added is a task if it has 1 to 1,024 bytes.", "what is longer than an id is no task"},
	{"queue.Queue.Run", "what the first returns does not touch its entry", "what a handler returns does not touch a newer entry"},
	{"queue.Queue.Run", "A task that has used up all of them becomes a dead letter", "a task that has used up its attempts is a dead letter"},
	{"queue.Queue.Retry", "One whose id is in the queue again stays.", "a dead letter stays beside a newer task"},
	{"queue.Queue.Add", "Add is [Queue.Enqueue] with payloads", "a payload stays with its task"},
	{"queue.Queue.Close", "Close closes the connection to the store", "closing a queue"},
	{"queue.Queue.Top", "Top returns up to n due tasks (1 to 2,000), oldest first", "Top tells what is due"},
	{"queue.KeepFirst", "KeepFirst makes [Queue.Enqueue] leave a task alone that is already in the queue.", "KeepFirst leaves a task alone"},
	{"queue.Queue.Dequeue", "Dequeue removes a task if its score is still the one that the caller saw, and reports whether it did.", "Dequeue removes what was seen"},
	{"queue.Queue.Remove", "returns how many of them existed", "Remove counts what was there"},
	{"queue.Queue.Count", "Count returns how many tasks are in which state.", "Count tells the states"},
	{"queue.WithFailed", "calls with each failed attempt", "WithFailed is told of each"},
	{"queue.Queue.Dead", "Dead returns up to n dead letters (1 to 2,000), newest first", "dead letters are told, the newest first"},
	{"queue.Queue.Retry", "with their payloads and with all attempts before them, and returns how many there were", "Retry gives back all attempts"},
	{"queue.Queue.Drop", "Drop removes dead letters (1 to 10,000), and returns how many there were.", "Drop drops dead letters alone"},
	{"queue.WithBackoff", "Each is between half of that and all of it", "a failed attempt waits"},
	{"queue.WithReport", "members that are no task ids, which get the score inf", "Run tells of what is no task"},
	{"queue.ErrInvalid", "ErrInvalid means a bad argument, also of the lock, which the text names.", "mistakes of a queue are ErrInvalid"},
	{"queue.Queue.Enqueue", "Enqueue waits for the lock until ctx ends", "errors of a queue"},
}

// TestPromises holds the table against the documentation: each sentence is there.
func TestPromises(t *testing.T) {
	comments := make(map[string]string)
	for _, pkg := range []string{"redlock", "admin", "election", "fence", "queue", "pool"} {
		commentsOf(t, pkg, comments)
	}
	for _, page := range []string{"docs/design.md", "docs/safety.md", "docs/operations.md", "docs/troubles.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", page))
		require.NoError(t, err)
		comments[page] = strings.Join(strings.Fields(string(text)), " ")
	}
	for _, p := range promises {
		assert.Contains(t, unlinked.Replace(comments[p.of]), unlinked.Replace(p.sentence), p.of)
	}
}

// unlinked leaves out what makes a name a link, also to package redlock from another one.
var unlinked = strings.NewReplacer("[", "", "]", "", "redlock.", "")

// commentsOf reads the doc comments of a package, each on one line, with those of fields.
func commentsOf(t *testing.T, pkg string, comments map[string]string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "..", "..", pkg, "*.go"))
	require.NoError(t, err)
	fset := token.NewFileSet()
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		file, err := parser.ParseFile(fset, path, text, parser.ParseComments)
		require.NoError(t, err)
		files = append(files, file)
	}
	parsed, err := doc.NewFromFiles(fset, files, "example.com/"+pkg)
	require.NoError(t, err)
	add := func(name string, texts ...string) {
		comments[pkg+"."+name] += strings.Join(strings.Fields(strings.Join(texts, " ")), " ")
	}
	comments[pkg] = strings.Join(strings.Fields(parsed.Doc), " ")
	for _, f := range parsed.Funcs {
		add(f.Name, f.Doc)
	}
	for _, v := range parsed.Vars {
		add(v.Names[0], v.Doc) // of one variable, or of several together
		addSpecs(add, v.Decl)
	}
	for _, one := range parsed.Types {
		add(one.Name, one.Doc)
		addSpecs(func(_ string, texts ...string) { add(one.Name, texts...) }, one.Decl)
		for _, f := range slices.Concat(one.Funcs) {
			add(f.Name, f.Doc)
		}
		for _, m := range one.Methods {
			add(one.Name+"."+m.Name, m.Doc)
		}
		for _, v := range one.Vars {
			addSpecs(add, v.Decl)
		}
	}
}

// addSpecs adds the comments of the variables and fields of a declaration.
func addSpecs(add func(name string, texts ...string), decl *ast.GenDecl) {
	for _, spec := range decl.Specs {
		switch spec := spec.(type) {
		case *ast.ValueSpec:
			add(spec.Names[0].Name, spec.Doc.Text())
		case *ast.TypeSpec:
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range s.Fields.List {
					add("", field.Doc.Text(), field.Comment.Text())
				}
			}
		}
	}
}

// looked fails if a check was never made, or one is in no row of the table.
func looked(t *testing.T, checked map[string]int, all bool) {
	t.Helper()
	named := make(map[string]bool)
	for _, p := range promises {
		named[p.check] = true
		if all {
			assert.NotZero(t, checked[p.check], "nothing looked at %q (%s)", p.check, p.of)
		}
	}
	for check := range checked {
		assert.True(t, named[check], "%q is a check, and no promise", check)
	}
}
