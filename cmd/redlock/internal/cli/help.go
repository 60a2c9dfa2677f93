package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
)

// helpWidth is that of the smallest usual terminal.
const helpWidth = 80

// fitHelp makes the help of all commands fit in a terminal.
func fitHelp(root *cobra.Command) {
	wrapped := fmt.Sprintf(".FlagUsagesWrapped %d |", helpWidth)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages |", wrapped))
	show := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		cmd.Long = rewrap(cmd.Long)
		show(cmd, args)
	})
}

// rewrap wraps the paragraphs of a text. Indented lines stay as they are.
func rewrap(text string) string {
	var lines, paragraph []string
	end := func() {
		lines, paragraph = append(lines, terminal.Wrap(strings.Join(paragraph, " "), helpWidth)...), nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || line[0] == ' ' || line[0] == '\t' {
			end()
			lines = append(lines, line)
			continue
		}
		paragraph = append(paragraph, line)
	}
	end()
	return strings.Join(lines, "\n")
}
