package trouble

// The connection fails.
const (
	Refused     Kind = "refused"
	Unresolved  Kind = "unresolved"
	NoRoute     Kind = "no-route"
	Silent      Kind = "silent"
	Ended       Kind = "ended"
	NotRedis    Kind = "not-redis"
	TLSAtPlain  Kind = "tls-at-plain"
	PlainAtTLS  Kind = "plain-at-tls"
	ServerName  Kind = "server-name"
	Authority   Kind = "authority"
	Expired     Kind = "expired"
	Certificate Kind = "client-certificate"
	Untrusted   Kind = "untrusted"
	Unreachable Kind = "unreachable" // none of the others
)

// The server does not let us in.
const (
	WrongPassword    Kind = "wrong-password"
	NoPassword       Kind = "no-password"
	NeedlessPassword Kind = "needless-password"
	ManyClients      Kind = "many-clients"
	Protected        Kind = "protected"
	Database         Kind = "database"
)

// The server must not vote, because of what it is.
const (
	Replica   Kind = "replica"
	Cluster   Kind = "cluster-mode"
	Sentinel  Kind = "sentinel"
	Evicts    Kind = "evicts"
	Twin      Kind = "twin"
	Several   Kind = "several"
	Addresses Kind = "addresses"
	NoScripts Kind = "no-scripts"
)

// The server does not do what it is asked now.
const (
	Loading     Kind = "loading"
	Busy        Kind = "busy"
	NotWriting  Kind = "not-writing"
	LogFails    Kind = "log-fails"
	Full        Kind = "full"
	FullOfOurs  Kind = "full-of-ours"
	FewReplicas Kind = "few-replicas"
	Slow        Kind = "slow"
)

// The user or the server lacks something.
const (
	Right    Kind = "right"
	Unknown  Kind = "unknown-command"
	Channels Kind = "channels"
	Keys     Kind = "keys"
	Derived  Kind = "derived"
	Marker   Kind = "marker"
	Register Kind = "register"
	NoDryRun Kind = "no-dry-run"
)

// The key is not that of a lock.
const (
	NoString Kind = "no-string"
	Lasting  Kind = "lasting"
	NoKey    Kind = "no-key"
)

// Its vote does not count: what it may have forgotten, and what it is a member of.
const (
	Quarantined  Kind = "quarantined"
	Lost         Kind = "lost"
	New          Kind = "new"
	NewWaits     Kind = "new-waits"
	NewIncludes  Kind = "new-incomplete"
	Torn         Kind = "torn"
	NotMember    Kind = "not-member"
	Removed      Kind = "removed"
	OtherCluster Kind = "other-cluster"
	Conflict     Kind = "conflict"
	NoMajority   Kind = "no-majority"
	Unasked      Kind = "unasked"
	LaterMarker  Kind = "later-marker"
	OtherMarker  Kind = "other-marker"
)

// The list differs from the members, or is a poor one.
const (
	Unlisted  Kind = "unlisted"
	NoSuch    Kind = "no-such-member"
	LongTTL   Kind = "long-ttl"
	SameHost  Kind = "same-host"
	OneMaster Kind = "one-master"
	Even      Kind = "even"
)

// It works today.
const (
	CertEnds     Kind = "certificate-ends"
	OwnCertEnds  Kind = "own-certificate-ends"
	NearlyFull   Kind = "nearly-full"
	OursFill     Kind = "ours-fill"
	SaveFails    Kind = "save-fails"
	Clock        Kind = "clock"
	OurClock     Kind = "our-clock"
	LoadsPart    Kind = "loads-a-part"
	Unidentified Kind = "unidentified"
	OldVersion   Kind = "old-version"
	HasReplicas  Kind = "has-replicas"
)

// What a restart forgets.
const (
	NoPersistence Kind = "no-persistence"
	Snapshots     Kind = "snapshots"
	Fsync         Kind = "fsync"
	OnRewrite     Kind = "on-rewrite"
	Truncated     Kind = "truncated"
	WasForgetful  Kind = "was-forgetful"
)
