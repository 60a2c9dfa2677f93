package job

import (
	"testing"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, nil, play) }
