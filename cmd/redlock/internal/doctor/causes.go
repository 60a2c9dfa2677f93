package doctor

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/internal/trouble"
	"github.com/redquorum/redquorum/pool"
)

// certWarning is how long before its end a certificate is reported.
const certWarning = 30 * 24 * time.Hour

// checkCertificates tells which certificates end soon.
func (f *facts) checkCertificates(r *findings) {
	for _, one := range []struct {
		kind  trouble.Kind
		whose string
		end   time.Time
	}{{trouble.CertEnds, "its certificate", f.certEnds}, {trouble.OwnCertEnds, "our client certificate", f.ownCertEnds}} {
		if left := one.end.Sub(f.now); !one.end.IsZero() && left < certWarning {
			r.add(one.kind, nil, "%s ends in %d days, at %s", one.whose, int(left.Hours()/24), one.end.UTC().Format(time.RFC3339))
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
func (f *facts) checkChangedPersistence(r *findings) {
	fields := strings.Fields(f.marker)
	if f.durable && f.memory() == markerActive && len(fields) > 3 && fields[3] == "0" {
		r.add(trouble.WasForgetful, nil, "a restart forgets nothing now, and did when its memory began")
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
			r := &findings{}
			r.add(trouble.SameHost, nil, "%s are on the host %s", prose.Plural(n, "master"), host)
			return r.all
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

// derivedRules are for all keys that scripts derive from that of a lock.
func (f *facts) derivedRules() (rules []string) {
	for _, family := range families {
		rules = append(rules, "~"+family+f.pattern)
	}
	return rules
}

// rights returns one line that allows the user everything that was refused; empty if nothing was.
func (f *facts) rights() string {
	var rules []string
	for command, refusal := range f.denied {
		if !isRight(refusal) {
			continue
		}
		if command == "PUBLISH" || command == "SUBSCRIBE" {
			rules = append(rules, "&redquorum:wake:*")
		}
		rules = append(rules, ruleOf(command))
	}
	if isRight(f.unreadable) || isRight(f.unwritable) {
		rules = append(rules, "~redquorum:memory", "+get", "+set", "+time")
	}
	if isRight(f.byList) {
		rules = append(rules, "~redquorum:members", "+set", "+time")
	}
	if errors.Is(f.err, pool.ErrNoScripts) && trouble.OfReply(wordsIn(f.err)) == trouble.Right {
		rules = append(rules, "+evalsha", "+eval", "+script|load") // the rest can be tried after that
	}
	if isRight(f.unusable) || isRight(f.outside) {
		rules = append(rules, "~"+f.pattern)
	}
	if isRight(f.derived) {
		rules = append(rules, f.derivedRules()...)
	}
	for _, lacks := range f.lacks {
		for _, l := range lacks {
			if isRight(l.refusal) {
				rules = append(rules, l.rule)
			}
		}
	}
	if len(rules) == 0 {
		return ""
	}
	return f.allowing(rules)
}

// allowing returns the line that adds rules to the user's.
func (f *facts) allowing(rules []string) string {
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

// isRight reports whether the server refused something to the user, and not to everybody.
func isRight(refusal error) bool { return trouble.Of(refusal) == trouble.Right }

// quoted returns a word as redis-cli takes it.
func quoted(word string) string {
	if !strings.ContainsAny(word, " \"'\t\n\r") {
		return word
	}
	return strconv.Quote(word)
}
