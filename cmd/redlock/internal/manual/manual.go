// Package manual writes the manual pages of a command. No command that is released imports it.
package manual

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// Write writes the pages of a command and of those below it into a folder. They have the date of
// SOURCE_DATE_EPOCH, or today's.
func Write(root *cobra.Command, version, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	root.DisableAutoGenTag = true
	return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: version, Manual: root.Name()}, folder)
}
