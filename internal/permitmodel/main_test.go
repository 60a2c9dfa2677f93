package permitmodel

import (
	"testing"

	"github.com/redquorum/redquorum/internal/search"
)

func TestMain(m *testing.M) { search.Main(m, "permits") }
