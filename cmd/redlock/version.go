package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print version, commit and Go version",
		Example: `  redlock version`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Usagef("version takes no arguments")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version())
			return err
		},
	}
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return versionText(info)
}

// versionText returns what the build knows about itself. Unknown parts are left out.
func versionText(info *debug.BuildInfo) string {
	text := "redlock"
	if v := info.Main.Version; v != "" {
		text += " " + v
	}
	settings := make(map[string]string, len(info.Settings))
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if revision := settings["vcs.revision"]; revision != "" {
		text += " commit " + revision
		if settings["vcs.modified"] == "true" {
			text += " (modified)"
		}
	}
	if info.GoVersion != "" {
		text += " " + info.GoVersion
	}
	return text
}
