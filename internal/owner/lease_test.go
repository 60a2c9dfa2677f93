package owner_test

import (
	"testing"

	"github.com/redquorum/redquorum/internal/owner"
)

func TestTheOwnerOfALeaseIsShownWithoutItsToken(t *testing.T) {
	for text, want := range map[string]string{
		"lease;door=http;from=ann@10.0.0.7:5;owner=worker+3%3B;token=a;token=b": "worker+3; (by http, from ann@10.0.0.7:5)",
		"lease;door=resp;from=unix;owner=;token=|":                              "somebody (by resp, from unix)",
		"lease;door=resp;from=%zz;owner=x;token=t":                              "x (by resp, from %zz)",
		"lease;door=resp;token=t":                                               "lease;door=resp;token=t",
		"me@web-1:7 app":                                                        "me@web-1:7 app",
	} {
		if got := owner.Shown(text); got != want {
			t.Errorf("%q is shown as %q, not as %q", text, got, want)
		}
	}
}
