package elect

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
)

func TestMain(m *testing.M) {
	clitest.Main(m, func() *cobra.Command { return clitest.Root(NewCommand()) }, play)
}
