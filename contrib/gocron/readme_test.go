package gocron_test

import (
	"testing"

	"github.com/redquorum/redquorum/internal/proof/docs"
)

func TestTheCodeOfTheReadmeCompiles(t *testing.T) {
	checker, err := docs.NewChecker(".", "context", "time",
		"github.com/go-co-op/gocron/v2", "github.com/google/uuid", "github.com/redquorum/redquorum/redlock", "redgocron=github.com/redquorum/redquorum/contrib/gocron")
	if err != nil {
		t.Fatal(err)
	}
	checked, err := checker.CheckPage("README.md", `
		var locker *redlock.Locker
		func settle(context.Context) error
		func report(uuid.UUID, string, error)`)
	if err != nil {
		t.Error(err)
	}
	if checked < 1 {
		t.Errorf("got %d blocks of code, want at least 1", checked)
	}
}
