package otel_test

import (
	"testing"

	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
)

func TestMain(m *testing.M) { cluster.Main(m) }
