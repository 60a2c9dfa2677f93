package prometheus_test

import (
	"testing"

	"github.com/redquorum/redquorum/internal/proof/docs"
)

func TestTheCodeOfTheReadmeCompiles(t *testing.T) {
	checker, err := docs.NewChecker(".", "time",
		"github.com/prometheus/client_golang/prometheus", "github.com/redquorum/redquorum/redlock", "redprometheus=github.com/redquorum/redquorum/contrib/prometheus")
	if err != nil {
		t.Fatal(err)
	}
	checked, err := checker.CheckPage("README.md", `
		var (
			locker, orders *redlock.Locker
			registry       prometheus.Registerer
			endpoints      []string
		)`)
	if err != nil {
		t.Error(err)
	}
	if checked < 3 {
		t.Errorf("got %d blocks of code, want at least 3", checked)
	}
}
