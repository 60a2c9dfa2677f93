package sharedmodel

import (
	"testing"

	"github.com/redquorum/redquorum/internal/search"
)

func TestMain(m *testing.M) { search.Main(m, "readers and writers") }
