package trouble

var votes = []Row{
	{
		Kind: Quarantined, Check: "quarantine", Severity: Error, Told: "the marker, or run_id and uptime",
		Why: mayForget, Do: "wait; restart one master at a time", Quiet: true,
	},
	{
		Kind: Lost, Check: "quarantine", Severity: Error, Told: "the marker says that it lost its keys",
		Why: mayForget, Do: "wait, and restart one master at a time; or, " + stopped + ", make them vote at once, where LIST are all masters of the list",
		Commands: []string{"redlock init --force --nodes LIST"}, Quiet: true,
	},
	{
		Kind: New, Check: "new", Severity: Note, Told: "no marker at any master",
		Why: "no client of redquorum has used these masters yet; if they held locks before they lost their keys, the first client begins too early",
		Do:  "nothing: the first client makes them vote; if clients use QuarantineStrict, give --strict", Quiet: true,
	},
	{
		Kind: NewWaits, Check: "quarantine", Severity: Error, Told: "no marker at this master",
		Why:      newWhy,
		Do:       "wait; or, if you know that no lock is held, make them vote at once, where LIST are all masters of the list",
		Commands: []string{"redlock init --nodes LIST"}, Quiet: true,
	},
	{
		Kind: NewIncludes, Check: "quarantine", Severity: Error, Told: "no marker at this master, and others do not answer",
		Why: newWhy, Do: "start the masters that are missing, or leave them out of the list", Quiet: true,
	},
	{
		Kind: Torn, Check: "quarantine", Severity: Error, Told: "the marker is there, and the list of members that it names is not",
		Why: "it lost a part of its keys, and so may have forgotten locks that are still held",
		Do:  "take a lock, which makes it wait and come back; LIST are all masters of the list",
		Commands: []string{
			"redlock run --name doctor{prefix} --ttl {max-ttl} --max-ttl {max-ttl} --wait {wait} --nodes LIST -- true",
		}, Quiet: true,
	},
	{
		Kind: NotMember, Check: "member", Severity: Error, Told: "its marker, and the members' list of members",
		Why:      "a quorum is a majority of the members, whatever the list of a client says",
		Do:       "take it out of the list; or make it a member, where LIST are the members (with a password of its own: redis://:PASSWORD@…)",
		Commands: []string{"redlock members add {endpoint} --nodes LIST"}, Quiet: true,
	},
	{
		Kind: Removed, Check: "member", Severity: Error, Told: "the members' list of members: it was removed",
		Why: "a quorum is a majority of the members, whatever the list of a client says", Do: "take it out of the list", Quiet: true,
	},
	{
		Kind: OtherCluster, Check: "cluster", Severity: Error, Told: "the cluster in its marker",
		Why: "votes of two clusters are never counted together", Do: "take it out of the list; or give only masters of one cluster", Quiet: true,
	},
	{
		Kind: Conflict, Check: "cluster", Severity: Error, Told: "the clusters in the markers of the list",
		Why: "votes of two clusters are never counted together, and which one is meant is not clear",
		Do:  "give only masters of one cluster; redlock members, asked with the endpoint of one master, shows its cluster", Quiet: true,
	},
	{
		Kind: NoMajority, Check: "cluster", Severity: Error, Told: "markers that remember, and too few of them",
		Why: "without a majority of its members, nobody knows who may vote",
		Do:  "list all members of the cluster and no others, and start those that are down; a new cluster needs all of its masters once", Quiet: true,
	},
	{
		Kind: Unasked, Check: "new", Severity: Note, Told: "it remembers, or its quarantine is over, and no client has asked since",
		Why: "it has restarted, or forgot, while no client was there", Do: "nothing: the next client that takes a lock makes it vote", Quiet: true,
	},
	{
		Kind: LaterMarker, Check: "quarantine", Severity: Error, Told: "the form of the marker",
		Why: "this version cannot tell whether it remembers", Do: "use a version of redquorum that is as new as the newest of the others", Quiet: true,
	},
	{
		Kind: OtherMarker, Check: "marker", Severity: Warning, Told: "the run id in the marker",
		Why: "its keys came from a disk or another server, and may be incomplete", Do: "run doctor again in a moment",
	},
}

const newWhy = "a master without a memory may be an old one that lost it; it votes at once only if all masters are there and new"

var lists = []Row{
	{
		Kind: Unlisted, Check: "list", Severity: Warning, Told: "the members' list of members",
		Why: "clients find it, as long as their list has a majority of the members that they can reach; those with " +
			"WithoutDiscovery or NewFromNodes count it as down",
		Do: "put it into the list of every client",
	},
	{
		Kind: NoSuch, Check: "list", Severity: Warning, Told: "the members' list of members",
		Why: "it has no vote, even if it comes back", Do: "take it out of the list of every client",
	},
	{
		Kind: LongTTL, Check: "ttl", Severity: Warning, Told: "the MaxTTL of the cluster",
		Why: "locks with a longer TTL are refused", Do: "use a shorter TTL; or allow it, where LIST are the members",
		Commands: []string{"redlock members max-ttl {ttl} --nodes LIST"},
	},
	{
		Kind: SameHost, Check: "host", Severity: Note, Told: "the hosts in the endpoints",
		Why: "if that machine fails, or its power, too few are left for a majority", Do: "give each master a machine of its own",
	},
	{
		Kind: OneMaster, Check: "number", Severity: Warning, Told: "the number of members",
		Why: "if it fails, all locks are gone; if it restarts, it forgets them", Do: "use three or five masters that do not fail together",
	},
	{
		Kind: Even, Check: "number", Severity: Note, Told: "the number of members",
		Why: "it tolerates the loss of {losses}, as with one master less", Do: "use an odd number",
	},
}

var today = []Row{
	{
		Kind: CertEnds, Check: "certificate", Severity: Warning, Told: "less than 30 days are left",
		Why: certWhy, Do: "renew it; CERT and KEY are the files of the new one, which needs no restart",
		Commands: []string{"CONFIG SET tls-cert-file CERT tls-key-file KEY"},
	},
	{
		Kind: OwnCertEnds, Check: "certificate", Severity: Warning, Told: "less than 30 days are left",
		Why: certWhy, Do: "renew it in its files, which new connections read",
	},
	{
		Kind: NearlyFull, Check: "memory", Severity: Warning, Told: "nine tenths of `maxmemory` are used",
		Why:      fullWhy + " (OOM)",
		Do:       "raise the limit, if its machine has that to spare, and the same in its configuration; or move other data elsewhere",
		Commands: []string{"CONFIG SET maxmemory {bytes}"},
	},
	{
		Kind: OursFill, Check: "memory", Severity: Warning, Told: "nine tenths are used; most keys of a sample are ours",
		Why: fullWhy + " (OOM)", Do: oursDo, Commands: []string{"CONFIG SET maxmemory {bytes}"},
	},
	{
		Kind: SaveFails, Check: "save", Severity: Warning, Told: "`rdb_last_bgsave_status` in INFO",
		Why:      "a master that cannot save refuses writes (MISCONF), unless stop-writes-on-bgsave-error is no",
		Do:       "read its log; make room on its disk, or let the server write to its directory (CONFIG GET dir); then have it save",
		Commands: []string{"BGSAVE"},
	},
	{
		Kind: Clock, Check: "clock", Severity: Warning, Told: "`TIME`, beside ours and the others'",
		Why: clockWhy,
		Do:  "run NTP on the machine of the master, so that the clock is slewed; step it once, while no locks are held",
	},
	{
		Kind: OurClock, Check: "clock", Severity: Warning, Told: "`TIME`: all masters agree, and differ from ours",
		Why: "programs on this machine give tokens by its clock, and its logs have the wrong time; the masters are well",
		Do:  "run NTP on this machine",
	},
	{
		Kind: LoadsPart, Check: "loading", Severity: Warning, Told: "`ACL DRYRUN` of the user default",
		Why:      "it loads its log with the rights of the user default, and skips the rest of what scripts wrote" + atRestart,
		Do:       "give the user default all rights, and keep them (ACL SAVE, or in the configuration): with off, it may load, and nobody can log in as it",
		Commands: []string{"{rule}", "{keep}"},
	},
	{
		Kind: Unidentified, Check: "unidentified", Severity: Warning, Told: "INFO has no `run_id`, or is refused",
		Why: "restarts with old keys, replicas and cluster members go unnoticed", Do: allowed, Commands: []string{"ACL SETUSER {user} +info", "{keep}"},
	},
	{
		Kind: OldVersion, Check: "version", Severity: Warning, Told: "`redis_version` in INFO",
		Why: "it has no CLIENT ID: what a proxy holds back from a broken connection cannot be killed", Do: "use Redis 5 or later",
	},
	{
		Kind: HasReplicas, Check: "replicated", Severity: Note, Told: "`connected_slaves` in INFO",
		Why: "a replica promoted behind this endpoint knows fewer locks, and clients quarantine it",
		Do:  "let nothing fail over behind the endpoint: a lost master must stay lost. A replica that nobody needs is ended there",
	},
}

const (
	certWhy  = "then there is no new connection to this master, and so no vote"
	clockWhy = "keys expire by the clock of the master: if it is corrected in one step, its locks end that much early or late"
)

var restarts = []Row{
	{
		Kind: NoPersistence, Check: "persistence", Severity: Note, Told: "`appendonly` and `save` in CONFIG",
		Why: "a restart forgets all locks" + atRestart + ". If all masters can restart at once, use QuarantineStrict",
		Do:  toDurable, Commands: durableSettings,
	},
	{
		Kind: Snapshots, Check: "persistence", Severity: Note, Told: "`appendonly` and `save` in CONFIG",
		Why: "a restart forgets everything since the last snapshot" + atRestart, Do: toDurable, Commands: durableSettings,
	},
	{
		Kind: Fsync, Check: "persistence", Severity: Note, Told: "`appendfsync` in CONFIG",
		Why: "a crash forgets what was not written yet" + atRestart, Do: toDurable, Commands: durableSettings[1:],
	},
	{
		Kind: OnRewrite, Check: "persistence", Severity: Note, Told: "`no-appendfsync-on-rewrite` in CONFIG",
		Why: "a crash during a rewrite forgets what was not written yet" + atRestart, Do: toDurable, Commands: durableSettings[2:3],
	},
	{
		Kind: Truncated, Check: "persistence", Severity: Note, Told: "`aof-load-truncated` in CONFIG",
		Why:      "a log whose end is damaged is loaded as if nothing were missing" + atRestart,
		Do:       toDurable + ". A master that does not start any more because its log is damaged is started empty",
		Commands: durableSettings[3:],
	},
	{
		Kind: WasForgetful, Check: "persistence", Severity: Note, Told: "the marker says that its memory began while it forgot at restarts",
		Why: "a restart may not load the locks that it held then, so its next restart still counts as one that forgets",
		Do:  "nothing; or restart it at a quiet moment: after the quarantine that follows it forgets nothing",
	},
}
