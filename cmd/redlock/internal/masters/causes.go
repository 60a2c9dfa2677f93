package masters

import (
	"cmp"
	"errors"
	"strings"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/internal/survey"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// Causes says why nodes do not vote, each reason once with the endpoints that have it; empty if all
// vote.
func Causes(nodes []redlock.NodeStats) string {
	var reasons []string
	at := map[string][]string{}
	for i := range nodes {
		n := &nodes[i]
		if survey.Votes(n) {
			continue
		}
		why := cmp.Or(n.Barred, n.Err, errNoAnswer).Error()
		if errors.Is(n.Err, pool.ErrAuth) {
			why = "user or password is wrong or missing: " + cli.Reason(n.Err, pool.ErrAuth)
		}
		if at[why] == nil {
			reasons = append(reasons, why)
		}
		at[why] = append(at[why], n.Endpoint)
	}
	for i, why := range reasons {
		reasons[i] = strings.Join(at[why], ", ") + ": " + why
	}
	return strings.Join(reasons, "; ")
}

var errNoAnswer = errors.New("no answer yet")
