package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every command that a user sees has a manual page, which names its flags.
func TestEveryCommandHasAManualPage(t *testing.T) {
	folder := t.TempDir()
	output, err := exec.Command("go", "run", "-tags", "manual", ".", folder).CombinedOutput()
	require.NoError(t, err, "%s", output)
	for _, command := range newRoot().Commands() {
		if command.Hidden {
			continue
		}
		page, err := os.ReadFile(filepath.Join(folder, "redlock-"+command.Name()+".1"))
		require.NoError(t, err)
		assert.Contains(t, string(page), command.Short)
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			assert.Contains(t, string(page), "--"+flag.Name)
		})
	}
}
