package otel_test

import (
	"testing"

	"github.com/redquorum/redquorum/internal/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m) }
