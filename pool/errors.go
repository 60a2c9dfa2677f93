package pool

import "github.com/redquorum/redquorum/internal/pipeline"

// Why a node does not answer, or has no vote. Match these with errors.Is, in [Stats] and in the
// errors of packages redlock and queue.
var (
	// ErrClosed means that the node was closed.
	ErrClosed = pipeline.ErrClosed

	// ErrTimeout means that no answer came within the timeout of a call (redlock.WithNodeTimeout,
	// queue.WithTimeout).
	ErrTimeout = pipeline.ErrTimeout

	// ErrBusy means that the node answers more slowly than it is asked, and 16,384 calls are
	// waiting.
	ErrBusy = pipeline.ErrBusy

	// ErrStalled means that a connection was given up because its oldest call went unanswered for
	// too long ([WithStallTimeout]).
	ErrStalled = pipeline.ErrStalled

	// ErrProtocol means that something other than Redis answered, or that an answer did not fit
	// what was asked.
	ErrProtocol = pipeline.ErrProtocol

	// ErrRefused means that the server that answers must not vote. The errors below that wrap it
	// say why.
	ErrRefused = pipeline.ErrRefused

	// ErrReplica means that the server is not a master: it replicates another one. It wraps
	// [ErrRefused].
	ErrReplica = pipeline.ErrReplica

	// ErrClusterMode means that the server is a cluster member, which may hand a key to another
	// member, or fail over. It wraps [ErrRefused].
	ErrClusterMode = pipeline.ErrClusterMode

	// ErrSentinelMode means that the server is a Sentinel, which stores nothing. It wraps
	// [ErrRefused].
	ErrSentinelMode = pipeline.ErrSentinelMode

	// ErrEvicts means that the server drops keys when its memory is full, and with them locks that
	// are held (maxmemory with a policy other than noeviction). It wraps [ErrRefused].
	ErrEvicts = pipeline.ErrEvicts

	// ErrDuplicate means that another node reaches the same server, which has only one vote, and
	// that vote counts there. It wraps [ErrRefused].
	ErrDuplicate = pipeline.ErrDuplicate

	// ErrNoScripts means that the server cannot run scripts, or does not let this user run them.
	// What it granted could not be released. It wraps [ErrRefused].
	ErrNoScripts = pipeline.ErrNoScripts

	// ErrAuth means that the server does not let us in: the user or the password is wrong or
	// missing. It does not wrap [ErrRefused], which is about the server, not about us.
	ErrAuth = pipeline.ErrAuth

	// ErrUntrusted means that there is no connection to a member of the cluster that only the
	// masters name, because our credentials must not go there ([WithMemberCredentials]).
	ErrUntrusted = pipeline.ErrUntrusted

	// ErrCertificate means that the server does not accept our client certificate, or wants one.
	ErrCertificate = pipeline.ErrCertificate

	// ErrQuarantined means that the server may have forgotten what it granted, and does not vote
	// until that has expired. It does not wrap [ErrRefused]: the server is fit to vote, and is
	// asked like the others.
	ErrQuarantined = pipeline.ErrQuarantined

	// ErrEndpoint means that an endpoint, or an option of a node, cannot be used. Nothing was
	// dialed.
	ErrEndpoint = pipeline.ErrEndpoint
)

// CallError is the error of a call that failed. Its field Fate says what may have become of the
// call, and Err why it failed: for [Refused], the server's words as a redis.Error of redigo.
// Packages redlock and queue return it, wrapped; match it with errors.As.
type CallError = pipeline.CallError

// Fate says what may have become of a failed call.
type Fate = pipeline.Fate

// The fates of a failed call.
const (
	// Unknown: the call may have been executed, may still be executed, or may never be.
	Unknown Fate = pipeline.Unknown
	// Unsent: the call was certainly not executed. A release is the exception: it is sent when the
	// node is back.
	Unsent Fate = pipeline.Unsent
	// Refused: the server answered with an error and did not do what it was asked.
	Refused Fate = pipeline.Refused
)
