package lease

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/redquorum/redquorum/internal/owner"
	"github.com/redquorum/redquorum/redlock"
)

// label is what a value has as its owner: whose lease it is, for people, and the token, by which
// its holder is known. In text:
//
//	lease;door=resp;from=10.0.0.7:51334;owner=worker-3;token=b7f3…
//
// The token comes last, as it is. What comes before it is escaped, so it has no semicolon.
// [owner.ParseLease] reads it.
type label struct{ door, from, owner, token string }

// MaxToken is how long a token may be, in bytes.
const MaxToken = 128

// maxFrom is enough for an address of IPv6 with a zone, and maxDoor for the names of doors.
const (
	maxFrom = 56
	maxDoor = 8
)

// text returns the label as text, no longer than an owner may be. Of what is only for people, it
// cuts what is too long.
func (l label) text() (string, error) {
	if l.token == "" || len(l.token) > MaxToken {
		return "", fmt.Errorf("%w: a token has 1 to %d bytes, not %d", redlock.ErrInvalid, MaxToken, len(l.token))
	}
	head := "lease;door=" + cut(l.door, maxDoor) + ";from=" + cut(l.from, maxFrom) + ";owner="
	const tail = ";token="
	return head + cut(l.owner, owner.Most-len(head)-len(tail)-len(l.token)) + tail + l.token, nil
}

// cut escapes a text, and cuts it to a length, not within what it has escaped.
func cut(text string, most int) string {
	var b strings.Builder
	for i := range len(text) {
		one := text[i : i+1]
		if !strings.ContainsAny(one, ":/@[] ") { // which need no escape here
			one = url.QueryEscape(one)
		}
		if b.Len()+len(one) > most {
			break
		}
		b.WriteString(one)
	}
	return b.String()
}
