package cron_test

import (
	"testing"

	"github.com/redquorum/redquorum/internal/proof/docs"
)

func TestTheCodeOfTheReadmeCompiles(t *testing.T) {
	checker, err := docs.NewChecker(".", "context", "time",
		"github.com/robfig/cron/v3", "github.com/redquorum/redquorum/redlock", "redcron=github.com/redquorum/redquorum/contrib/cron")
	if err != nil {
		t.Fatal(err)
	}
	checked, err := checker.CheckPage("README.md", `
		var (
			locker *redlock.Locker
			job    cron.Job
		)
		func settle(context.Context)
		func report(string, error)`)
	if err != nil {
		t.Error(err)
	}
	if checked < 2 {
		t.Errorf("got %d blocks of code, want at least 2", checked)
	}
}
