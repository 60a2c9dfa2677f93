package doctor

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/pool"
)

// certWarning is how long before its end a certificate is reported.
const certWarning = 30 * 24 * time.Hour

// asFull names a full memory in place of all that it has the server refuse.
func (f *facts) asFull(found []finding) []finding {
	refused := func(f finding) bool { return strings.Contains(f.What, "OOM command not allowed") }
	if !slices.ContainsFunc(found, refused) {
		return found
	}
	found = slices.DeleteFunc(found, func(f finding) bool { return refused(f) || f.Check == "memory" })
	what, do := f.whatFills()
	return append(found, finding{severe, "memory", "its memory is full (OOM)" + what, "a full master refuses every lock", do})
}

// checkTLS explains a connection that failed because of a certificate.
func (f *facts) checkTLS() (found finding, is bool) {
	var invalid x509.CertificateInvalidError
	switch {
	case errors.Is(f.err, pool.ErrCertificate):
		return finding{
			severe, "certificate", "it wants another client certificate than ours, or any: " + cli.Reason(f.err, pool.ErrCertificate),
			"a master that rejects us has no vote",
			"give --cert and --key, or ?cert=FILE&key=FILE in the endpoint, with a certificate that its tls-ca-cert-file has signed " +
				"and that has not ended",
		}, true
	case errors.As(f.err, &invalid) && invalid.Reason == x509.Expired:
		return finding{
			severe, "certificate", "its certificate has ended, or not begun: " + f.err.Error(),
			"a master that may be somebody else has no vote; a majority must answer",
			"renew the certificate, and check the clocks of both machines",
		}, true
	default:
		return finding{}, false
	}
}

// checkCertificates tells which certificates end soon.
func (f *facts) checkCertificates(add adder) {
	for _, one := range []struct {
		whose, do string
		end       time.Time
	}{
		{"its certificate", "renew it (CONFIG SET tls-cert-file and tls-key-file take a new one without a restart)", f.certEnds},
		{"our client certificate", "renew it: new connections read the files again", f.ownCertEnds},
	} {
		if left := one.end.Sub(f.now); !one.end.IsZero() && left < certWarning {
			add(warning, "certificate", "then there is no new connection to this master, and so no vote", one.do,
				"%s ends in %d days, at %s", one.whose, int(left.Hours()/24), one.end.UTC().Format(time.RFC3339))
		}
	}
}

// forgetting says how a master with this persistence came to forget; empty if that is not known.
func (f *facts) forgetting() string {
	uptime, err := strconv.ParseInt(f.info["uptime_in_seconds"], 10, 64)
	if err != nil || time.Duration(uptime)*time.Second > f.maxTTL || f.config["appendonly"] == "" {
		return ""
	}
	how := fmt.Sprintf(" (it restarted %v ago, ", time.Duration(uptime)*time.Second)
	switch {
	case f.config["appendonly"] == "yes" && f.config["appendfsync"] == "everysec":
		return how + "with appendfsync everysec: it may have lost the last second, and nobody knows which locks were in it, so none counts)"
	case f.config["appendonly"] == "yes" && f.config["appendfsync"] == "no":
		return how + "with appendfsync no: it may have lost the last half minute, so none of its locks counts)"
	case f.config["appendonly"] == "no":
		return how + "with appendonly no: it kept nothing but its last snapshot)"
	default:
		return ""
	}
}

// checkChangedPersistence tells of a server that was made durable while it ran.
func (f *facts) checkChangedPersistence(add adder) {
	fields := strings.Fields(f.marker)
	if f.durable && f.memory() == markerActive && len(fields) > 3 && fields[3] == "0" {
		add(note, "persistence", "a restart may not load the locks that it held then, so its next restart still counts as one that forgets",
			"nothing; or restart it at a quiet moment: after the quarantine that follows it forgets nothing",
			"a restart forgets nothing now, and did when its memory began")
	}
}

// checkHosts tells of masters that one machine's failure takes away together.
func checkHosts(all []facts) []finding {
	at := map[string]int{}
	for i := range all {
		if u, err := url.Parse(all[i].endpoint); err == nil && u.Hostname() != "" && !strings.HasPrefix(u.Hostname(), "127.") {
			at[u.Hostname()]++
		}
	}
	for host, n := range at {
		if n > (len(all)-1)/2 && n > 1 {
			return []finding{{
				note, "host", fmt.Sprintf("%s are on the host %s", prose.Plural(n, "master"), host),
				"if that machine fails, or its power, too few are left for a majority", "give each master a machine of its own",
			}}
		}
	}
	return nil
}

// user is whose rights are missing, as ACL SETUSER takes it.
func (f *facts) setUser() string { return "ACL SETUSER " + quoted(f.user) + " " }

// families are what the keys beside a lock begin with, that scripts derive.
var families = []string{
	"redquorum:wait:", "redquorum:waits:", "redquorum:others:", "redquorum:adopt:", "redquorum:fence:", "redquorum:readers:",
	"redquorum:intent:", "redquorum:permits:", "redquorum:permit:wait:",
}

// rights returns one line that allows the user everything that was refused; empty if nothing was.
func (f *facts) rights() string {
	var rules []string
	for command, refusal := range f.denied {
		name := strings.ToLower(command)
		switch {
		case !isACL(refusal):
			continue
		case name == "script":
			name = "script|load"
		case name == "publish" || name == "subscribe":
			rules = append(rules, "&redquorum:wake:*")
		}
		rules = append(rules, "+"+strings.ReplaceAll(name, " ", "|"))
	}
	if isACL(f.unreadable) || isACL(f.unwritable) {
		rules = append(rules, "~redquorum:memory", "+get", "+set", "+time")
	}
	if isACL(f.byList) {
		rules = append(rules, "~redquorum:members", "+set", "+time")
	}
	if errors.Is(f.err, pool.ErrNoScripts) && isACL(f.err) {
		rules = append(rules, "+evalsha", "+eval", "+script|load") // the rest can be tried after that
	}
	if isACL(f.unusable) || isACL(f.outside) {
		rules = append(rules, "~"+f.pattern)
	}
	if isACL(f.derived) {
		for _, family := range families {
			rules = append(rules, "~"+family+f.pattern)
		}
	}
	for _, lacks := range f.lacks {
		for _, l := range lacks {
			if !isUnknown(l.refusal) {
				rules = append(rules, l.rule)
			}
		}
	}
	if len(rules) == 0 {
		return ""
	}
	slices.Sort(rules)
	rules = slices.Compact(rules)
	if slices.Contains(rules, "~*") { // Redis refuses a rule with further patterns beside it
		rules = slices.DeleteFunc(rules, func(rule string) bool { return rule != "~*" && strings.HasPrefix(rule, "~") })
	}
	for i := range rules {
		rules[i] = quoted(rules[i])
	}
	return f.setUser() + strings.Join(rules, " ")
}

// isACL reports whether the server refused something to the user, and not to everybody.
func isACL(refusal error) bool {
	return refusal != nil && (strings.Contains(refusal.Error(), "NOPERM") || strings.Contains(refusal.Error(), "can't access") ||
		strings.Contains(refusal.Error(), "no permissions"))
}

// unknown is how servers say that there is no such command, also to a script.
var unknown = regexp.MustCompile(`(?i)\bunknown (\w+ )?(sub)?command\b`)

// isUnknown reports whether the server refused a command to everybody: it does not have it, or not
// by this name.
func isUnknown(refusal error) bool { return refusal != nil && unknown.MatchString(refusal.Error()) }

// renamed returns the finding with what to do about a command that the server does not have: no
// rule allows that.
func (f finding) renamed() finding {
	if unknown.MatchString(f.What) {
		f.Do = "take the rename-command of this command out of the server's configuration, and restart it: no rule of an ACL brings it " +
			"back. A service that does not offer the command, or a server that is too old for it, cannot be cured: use another server"
	}
	return f
}

// quoted returns a word as redis-cli takes it.
func quoted(word string) string {
	if !strings.ContainsAny(word, " \"'\t\n\r") {
		return word
	}
	return strconv.Quote(word)
}
