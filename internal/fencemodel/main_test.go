package fencemodel

import (
	"testing"

	"github.com/redquorum/redquorum/internal/search"
)

func TestMain(m *testing.M) { search.Main(m, "fencing") }
