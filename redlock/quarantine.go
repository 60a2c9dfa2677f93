package redlock

// Quarantine says what to do with a server that may have forgotten locks. Each server has a memory
// marker, which is gone or another one when it has lost what it held; a server without a valid one
// gets every command, and its answers do not count, until all that it may have forgotten has
// expired ([WithMaxTTL] after the loss was noticed). It is the delayed restart of the Redlock
// article, enforced by the client.
type Quarantine uint8

const (
	// QuarantineAuto: where all nodes are there and none has a marker, the cluster is new, and
	// votes at once.
	QuarantineAuto Quarantine = iota
	// QuarantineStrict: the servers of a new cluster, too, vote only after that time, or after
	// "redlock init".
	QuarantineStrict
	// QuarantineOff: every answer counts. For servers whose restart is delayed by other means.
	QuarantineOff
)
