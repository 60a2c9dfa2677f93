package owner

import (
	"cmp"
	"net/url"
	"strings"
)

// Lease is the owner of a lease of `redlock serve`, which is stored as
//
//	lease;door=http;from=10.0.0.7:51334;owner=worker-3;token=b7f3…
type Lease struct{ Door, From, Owner, Token string }

// ParseLease reads it, and reports whether an owner is one.
func ParseLease(text string) (l Lease, ok bool) {
	rest, ok := strings.CutPrefix(text, "lease;door=")
	if !ok {
		return l, false
	}
	head, token, ok := strings.Cut(rest, ";token=")
	fields := strings.Split(head, ";")
	if !ok || token == "" || len(fields) != 3 {
		return l, false
	}
	from, isFrom := strings.CutPrefix(fields[1], "from=")
	of, isOwner := strings.CutPrefix(fields[2], "owner=")
	return Lease{plain(fields[0]), plain(from), plain(of), token}, isFrom && isOwner
}

func plain(escaped string) string {
	text, err := url.PathUnescape(escaped) // where a plus sign is one
	if err != nil {
		return escaped
	}
	return text
}

// Shown returns an owner for people: of a lease, who it is, the door, and where it came from,
// without the token, which is for its holder alone.
func Shown(text string) string {
	l, ok := ParseLease(text)
	if !ok {
		return text
	}
	return cmp.Or(l.Owner, "somebody") + " (by " + l.Door + ", from " + l.From + ")"
}
