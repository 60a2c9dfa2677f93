package asynq_test

import (
	"testing"

	"github.com/redquorum/redquorum/internal/proof/docs"
)

func TestTheCodeOfTheReadmeCompiles(t *testing.T) {
	checker, err := docs.NewChecker(".", "context", "errors",
		"github.com/hibiken/asynq", "github.com/redquorum/redquorum/redlock", "redasynq=github.com/redquorum/redquorum/contrib/asynq")
	if err != nil {
		t.Fatal(err)
	}
	checked, err := checker.CheckPage("README.md", `
		var locker *redlock.Locker`)
	if err != nil {
		t.Error(err)
	}
	if checked < 2 {
		t.Errorf("got %d blocks of code, want at least 2", checked)
	}
}
