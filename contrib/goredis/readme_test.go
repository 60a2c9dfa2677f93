package goredis_test

import (
	"testing"

	"github.com/redquorum/redquorum/internal/proof/docs"
)

func TestTheCodeOfTheReadmeCompiles(t *testing.T) {
	checker, err := docs.NewChecker(".", "github.com/redis/go-redis/v9", "github.com/redquorum/redquorum/redlock", "github.com/redquorum/redquorum/contrib/goredis")
	if err != nil {
		t.Fatal(err)
	}
	checked, err := checker.CheckPage("README.md", `
		var a, b, c *redis.Options`)
	if err != nil {
		t.Error(err)
	}
	if checked < 1 {
		t.Errorf("got %d blocks of code, want at least 1", checked)
	}
}
