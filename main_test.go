package redquorum_test

import (
	"os"
	"testing"

	"github.com/redquorum/redquorum/internal/proof/search"
)

func TestMain(m *testing.M) {
	search.RunMore(4) // they mostly wait
	os.Exit(m.Run())
}
