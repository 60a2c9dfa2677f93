package trouble

import "slices"

// Table has a row for each kind.
var Table = slices.Concat(connection, access, character, state, rights, keys, votes, lists, today, restarts)

// Reasons that several rows have.
const (
	silentWhy = "a master that does not answer has no vote; a majority must answer"
	strangeTo = "a master that may be somebody else has no vote; a majority must answer"
	rejects   = "a master that rejects us has no vote"
	fullWhy   = "a full master refuses every lock"
	forgets   = "clients quarantine the master for {max-ttl} after a restart"
	atRestart = "; " + forgets
	toDurable = "set this, and the same in its configuration (CONFIG REWRITE): then it forgets nothing; " +
		"or restart one master at a time, and wait {max-ttl} between restarts"
	mayForget = "it may have forgotten locks that are still held"
	stopped   = "only if everything that takes locks from these masters is stopped"
	allowed   = "allow it to the user, in redis-cli at the master, as a user who may, and keep it (ACL SAVE, or in the configuration)"
)

// durableSettings make a master that forgets nothing.
var durableSettings = []string{
	"CONFIG SET appendonly yes", "CONFIG SET appendfsync always", "CONFIG SET no-appendfsync-on-rewrite no", "CONFIG SET aof-load-truncated no",
}

var connection = []Row{
	{
		Kind: Refused, Check: "unreachable", Severity: Error, Told: "`ECONNREFUSED`; a socket that is not there",
		Says: "it does not answer", Why: silentWhy, Do: "start the server there, or correct its address in the list",
	},
	{
		Kind: Unresolved, Check: "unreachable", Severity: Error, Told: "an error of the resolver",
		Says: "its name has no address", Why: silentWhy,
		Do: "correct the name in the list, or add it where this machine looks names up (DNS, /etc/hosts)",
	},
	{
		Kind: NoRoute, Check: "unreachable", Severity: Error, Told: "`EHOSTUNREACH`, `ENETUNREACH`",
		Says: "it cannot be reached", Why: silentWhy, Do: "mend the route or the firewall between this machine and the master",
	},
	{
		Kind: Silent, Check: "unreachable", Severity: Error, Told: "no connection, or no answer to its first commands, in time",
		Says: "it does not answer", Why: silentWhy,
		Do: "at the master, see whether its process runs (kill -CONT wakes one that was stopped), is not paused (CLIENT UNPAUSE) and has " +
			"no slow commands (SLOWLOG GET); if it is well, mend the network in between",
		Quiet: true,
	},
	{
		Kind: Ended, Check: "unreachable", Severity: Error, Told: "the connection ends before the first answer",
		Says: "it does not answer", Why: silentWhy,
		Do: "read the server's log: it may be restarting; or a proxy in between has no server behind it", Quiet: true,
	},
	{
		Kind: NotRedis, Check: "unreachable", Severity: Error, Told: "an answer that is not of Redis' protocol, or does not fit",
		Says: "something else answers", Why: silentWhy, Do: "correct the port in the list: it is that of another service",
	},
	{
		Kind: TLSAtPlain, Check: "unreachable", Severity: Error, Told: "no TLS in the first answer; nothing, where both sides wait",
		Says: "it has no TLS at this port", Why: silentWhy,
		Do: "write redis:// in the list in place of rediss://, or give the port that the server has for TLS (tls-port)", Quiet: true,
	},
	{
		Kind: PlainAtTLS, Check: "unreachable", Severity: Error, Told: "over TCP without TLS, no connection was ever answered",
		Says: "it may want TLS", Why: silentWhy,
		Do: "write rediss:// in the list in place of redis://, or give the port that the server has without TLS", Quiet: true,
	},
	{
		Kind: ServerName, Check: "unreachable", Severity: Error, Told: "`x509.HostnameError`",
		Says: "its certificate is of another name", Why: strangeTo,
		Do: "add ?servername=NAME to the endpoint, where NAME is the one in the certificate that is meant; " +
			"or give the server a certificate for its host",
	},
	{
		Kind: Authority, Check: "unreachable", Severity: Error, Told: "`x509.UnknownAuthorityError`",
		Says: "its certificate is not trusted", Why: strangeTo,
		Do: "trust the authority that signed it: install it on this machine, or name its file with --cacert",
	},
	{
		Kind: Expired, Check: "certificate", Severity: Error, Told: "`x509.CertificateInvalidError`, expired",
		Says: "its certificate has ended, or not begun", Why: strangeTo,
		Do:       "give the server a new certificate, whose files are CERT and KEY, and check the clocks of both machines",
		Commands: []string{"CONFIG SET tls-cert-file CERT tls-key-file KEY"},
	},
	{
		Kind: Certificate, Check: "certificate", Severity: Error, Told: "the alert of TLS; an end behind the question for ours",
		Says: "it wants another client certificate than ours, or any", Why: rejects,
		Do: "give --cert and --key, or ?cert=FILE&key=FILE in the endpoint, with a certificate that its tls-ca-cert-file has signed " +
			"and that has not ended",
	},
	{
		Kind: Untrusted, Check: "untrusted", Severity: Error, Told: "the masters name it, and the list does not",
		Says: "it is not connected to", Why: "our password or certificate may not go to any host that the masters name",
		Do: "add it to the list, with TLS if the others have it; or, if its host is only missing there, give --trust-members", Quiet: true,
	},
	{
		Kind: Unreachable, Check: "unreachable", Severity: Error, Told: "any other error of the connection",
		Says: "it does not answer", Why: silentWhy, Do: "check that it runs, its address, and the network in between", Quiet: true,
	},
}

var access = []Row{
	{
		Kind: WrongPassword, Check: "password", Severity: Error, Told: "`WRONGPASS`; before Redis 6 `ERR invalid password`",
		Says: "user or password is wrong", Why: rejects,
		Do: "correct user and password in the list; if they are right, an operator of the master allows them there " +
			"(ACL LIST shows the users, and which are off)",
	},
	{
		Kind: NoPassword, Check: "password", Severity: Error, Told: "`NOAUTH`",
		Says: "it wants a password", Why: rejects, Do: "give user and password in the list, as redis://USER:PASSWORD@host:port",
	},
	{
		Kind: NeedlessPassword, Check: "password", Severity: Error, Told: "`ERR` of `AUTH`: the server has no password",
		Says: "it knows no password", Why: rejects,
		Do:       "leave the password out of the list; or set it at the master, where PASSWORD is that of the list",
		Commands: []string{"CONFIG SET requirepass PASSWORD"},
	},
	{
		Kind: ManyClients, Check: "unreachable", Severity: Error, Told: "`ERR max number of clients reached`",
		Says: "it takes no more connections", Why: rejects,
		Do:       "end some connections that nobody needs, then allow NUMBER of them, more than CLIENT LIST shows, and the same in its configuration",
		Commands: []string{"CONFIG SET maxclients NUMBER"},
	},
	{
		Kind: Protected, Check: "unreachable", Severity: Error, Told: "`DENIED`",
		Says: "it answers its own machine only", Why: rejects,
		Do:       "on the machine of the master, set a password there, and give PASSWORD in the list as well",
		Commands: []string{"CONFIG SET requirepass PASSWORD"},
	},
	{
		Kind: Database, Check: "unreachable", Severity: Error, Told: "the answer to `SELECT`",
		Says: "it has no such database", Why: rejects,
		Do: "give a database below its `databases` (CONFIG GET databases), the same one in each endpoint of the list",
	},
}

var character = []Row{
	{
		Kind: Replica, Check: "replica", Severity: Error, Told: "`role` in INFO; `READONLY`, `MASTERDOWN`",
		Why: "a replica has no vote of its own: it repeats its master's, later",
		Do:  "give the endpoint of an independent master in its place",
	},
	{
		Kind: Cluster, Check: "mode", Severity: Error, Told: "`redis_mode` and `cluster_enabled` in INFO",
		Why: "a cluster may move the key to another server, or fail over and forget it",
		Do:  "give the endpoint of a standalone server, which has cluster-enabled no in its configuration",
	},
	{
		Kind: Sentinel, Check: "mode", Severity: Error, Told: "`redis_mode` in INFO",
		Why: "a Sentinel stores no keys", Do: "give the endpoint of an independent master, not that of its monitor",
	},
	{
		Kind: Evicts, Check: "eviction", Severity: Error, Told: "`maxmemory` and `maxmemory_policy` in INFO",
		Why: "an evicted lock can get a second holder",
		Do:  "set this, and the same in its configuration, and keep memory free", Commands: []string{"CONFIG SET maxmemory-policy noeviction"},
	},
	{
		Kind: Twin, Check: "twin", Severity: Error, Told: "the `run_id` of another endpoint",
		Why: "one server has one vote, however many endpoints lead to it",
		Do:  "give the endpoint of another server, or remove this one from the list", Quiet: true,
	},
	{
		Kind: Several, Check: "several", Severity: Error, Told: "further connections reach other run ids",
		Why: "what one connection locks, the next one finds free at another server: as many hold a lock at once as there are servers",
		Do:  severalDo,
	},
	{
		Kind: Addresses, Check: "several", Severity: Warning, Told: "the name has several addresses of one kind",
		Why: "if these are different servers, what one connection locks, the next one finds free at another server", Do: severalDo,
	},
	{
		Kind: NoScripts, Check: "scripts", Severity: Error, Told: "`EVALSHA`, and `EVAL` or `SCRIPT LOAD`, are refused",
		Why: "scripts renew and release locks: what this server grants would stay until its TTL ends",
		Do: "allow these to the user, as a user who may (ACL SAVE keeps it); " +
			"if the server has no Lua, enable it or use another server",
		Commands: []string{"ACL SETUSER {user} +evalsha +eval +script|load"}, Quiet: true,
	},
}

const severalDo = "give each master an endpoint of its own, in place of the name of a balancer or service (in Kubernetes, that of each pod " +
	"of a StatefulSet)"

var state = []Row{
	{
		Kind: Loading, Check: "unreachable", Severity: Error, Told: "`LOADING`",
		Says: "it has not started yet", Why: "it answers nothing before its keys are loaded",
		Do: "wait: INFO persistence says for how long (loading_eta_seconds)",
	},
	{
		Kind: Busy, Check: "unreachable", Severity: Error, Told: "`BUSY`",
		Says: "a script keeps it busy", Why: "it answers nothing before that ends",
		Do:       "end the script, at the master; if this answers UNKILLABLE, SHUTDOWN NOSAVE, and start it again",
		Commands: []string{"SCRIPT KILL"},
	},
	{
		Kind: NotWriting, Check: "save", Severity: Error, Told: "`MISCONF`; `rdb_last_bgsave_status` in INFO",
		Says: "it takes no writes, because it cannot save", Why: "it grants no lock and renews none",
		Do:       "make room on its disk, or let the server write to its directory (CONFIG GET dir); then have it save, which ends this",
		Commands: []string{"BGSAVE"},
	},
	{
		Kind: LogFails, Check: "save", Severity: Error, Told: "`MISCONF`; `aof_last_write_status` in INFO",
		Says: "it takes no writes, because its log cannot be written", Why: "it grants no lock and renews none",
		Do: "make room on its disk: the server tries again each second, and goes on by itself",
	},
	{
		Kind: Full, Check: "memory", Severity: Error, Told: "`OOM`",
		Says: "its memory is full (OOM)", Why: fullWhy,
		Do:       "raise the limit, if its machine has that to spare, and the same in its configuration; or move other data elsewhere",
		Commands: []string{"CONFIG SET maxmemory {bytes}"},
	},
	{
		Kind: FullOfOurs, Check: "memory", Severity: Error, Told: "`OOM`; most keys of a sample are ours",
		Says: "its memory is full (OOM)", Why: fullWhy, Do: oursDo, Commands: []string{"CONFIG SET maxmemory {bytes}"},
	},
	{
		Kind: FewReplicas, Check: "replicated", Severity: Error, Told: "`NOREPLICAS`",
		Says: "it takes no writes without replicas", Why: "it grants no lock and renews none",
		Do:       "a master of locks needs no replicas: set this, and the same in its configuration",
		Commands: []string{"CONFIG SET min-replicas-to-write 0"},
	},
	{
		Kind: Slow, Check: "slow", Severity: Error, Told: "the round trips of some PINGs",
		Why: "late votes do not count, and every vote takes its time off the validity",
		Do:  "move it closer; check for slow commands (SLOWLOG GET) and a busy machine; or use a larger TTL",
	},
}

const oursDo = "set this, and the same in its configuration; and {fewer}: these keys go by themselves, when docs/operations.md (Keys) says"

var rights = []Row{
	{
		Kind: Right, Check: "permission", Severity: Note, Told: "`NOPERM`; before Redis 7.2 the words of a script's error",
		Why: "{cost}", Do: allowed, Commands: []string{"{rule}", "{keep}"},
	},
	{
		Kind: Unknown, Check: "permission", Severity: Note, Told: "`ERR unknown command`, also of a script",
		Why: "{cost}",
		Do: "take the rename-command of this command out of the server's configuration, and restart it: no rule of an ACL brings it " +
			"back. A service that does not offer the command, or a server that is too old for it, cannot be cured: use another server",
	},
	{
		Kind: Channels, Check: "permission", Severity: Note, Told: "`NOPERM` of PUBLISH or SUBSCRIBE",
		Why: "the master cannot wake waiters: they poll", Do: allowed, Commands: []string{"{rule}", "{keep}"},
	},
	{
		Kind: Keys, Check: "permission", Severity: Error, Told: "`NOPERM` of a key like those of the locks",
		Why: "no lock can be acquired under such a key",
		Do:  "give the --key-prefix of the locks that the user is for, or their --name; or allow the keys", Commands: []string{"{rule}", "{keep}"},
	},
	{
		Kind: Derived, Check: "derived", Severity: Warning, Told: "a script may not touch a key that it derives",
		Why:      "waiters poll and are not ordered; {failing} fail",
		Do:       "allow the patterns to the user (ACL SAVE keeps it); start Dragonfly with --default_lua_flags=allow-undeclared-keys",
		Commands: []string{"{rule}", "{keep}"},
	},
	{
		Kind: Marker, Check: "marker", Severity: Warning, Told: "GET or SET of redquorum:memory, or TIME, is refused",
		Why: "memory losses are inferred from INFO only: FLUSHALL, REPLICAOF and a restart within the first minute go unnoticed " +
			"(docs/safety.md), unless other clients keep the marker",
		Do: allowed, Commands: []string{"{rule}", "{keep}"},
	},
	{
		Kind: Register, Check: "members", Severity: Warning, Told: "GET or SET of redquorum:members is refused",
		Why: "clients with this user count votes by their own lists: two with different lists may exclude nobody",
		Do:  allowed, Commands: []string{"{rule}", "{keep}"},
	},
	{
		Kind: NoDryRun, Check: "permission", Severity: Note, Told: "`ACL DRYRUN` is unknown, and the log is written with each command",
		Why: "a durable master is quarantined like any other: it may load only a part of its log", Do: "use Redis 7 or later",
	},
}

var keys = []Row{
	{
		Kind: NoString, Check: "name", Severity: Error, Told: "`WRONGTYPE`",
		Why: misnamedWhy, Do: anotherName, Quiet: true,
	},
	{Kind: Lasting, Check: "name", Severity: Error, Told: "the key does not expire", Why: misnamedWhy, Do: anotherName},
	{
		Kind: NoKey, Check: "name", Severity: Error, Told: "any refusal of the key that --name names",
		Why: misnamedWhy, Do: "allow the key to the user; or fix what the server complains about", Commands: []string{"{rule}", "{keep}"},
	},
}

const (
	misnamedWhy = "no lock of this name can be acquired here"
	anotherName = "use another name or --key-prefix"
)
