package main

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/demo"
	"github.com/redquorum/redquorum/cmd/redlock/internal/doctor"
	"github.com/redquorum/redquorum/cmd/redlock/internal/members"
	"github.com/redquorum/redquorum/cmd/redlock/internal/run"
	"github.com/redquorum/redquorum/cmd/redlock/internal/serve"
	"github.com/redquorum/redquorum/cmd/redlock/internal/tasks"
)

// subcommands make the commands, by their names.
var subcommands = map[string]func() *cobra.Command{
	"demo": demo.NewCommand, "doctor": doctor.NewCommand, "elect": run.NewElectCommand, "init": newInitCommand,
	"inspect": newInspectCommand, "list": newListCommand, "log": newLogCommand, "members": members.NewCommand,
	"queue": tasks.NewCommand, "run": run.NewCommand, "serve": serve.NewCommand, "top": newTopCommand,
	"unlock": newUnlockCommand, "version": newVersionCommand,
}

// newRoot returns the command for such arguments. If they begin with the name of a subcommand, it
// is the only one: a program that cron starts every minute does not make the flags of all others.
func newRoot(args ...string) *cobra.Command {
	root := &cobra.Command{
		Use:   "redlock",
		Short: "Failover-safe locks over independent Redis masters",
		Long: `redlock holds locks on a majority of independent Redis masters (Redlock). Losing a minority of
them goes unnoticed, and never gives a lock to two holders.

Exit status: 0 on success, 1 on failure, 64 when the command line makes no sense, 69 when too few
masters answer. "redlock run" and "redlock elect" exit with the status of the command that they run,
or with one of a few of their own.

With --json, fields are named like what is printed without it, and nodes has the masters. Those in
_ms are milliseconds. The help of a command has what needs a word. With the whole value of a lock,
anyone can release it.`,
		Example: `  redlock demo                                  see it work, without masters
  redlock doctor                                are these masters fit for locks?
  redlock run --name nightly -- php cron.php    never two at once
  redlock elect --name scheduler -- scheduler   on one machine of many
  redlock queue run orders -- php cancel.php    for each task that is due
  redlock inspect nightly                       who holds it?
  redlock list                                  which locks are there?
  redlock members                               which masters count?
  redlock serve                                 all of that on a page
  redlock help run`,
		Args:                       knownCommand,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SuggestionsMinimumDistance: 2,

		Version: version(),
	}
	root.SetVersionTemplate("{{.Version}}\n")
	if len(args) > 0 && subcommands[args[0]] != nil {
		root.AddCommand(subcommands[args[0]]())
		return root
	}
	for _, add := range subcommands {
		root.AddCommand(add())
	}
	return root
}

// knownCommand rejects arguments that are left because no command matched.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cli.MayHoldPassword(args[0]) {
		return cli.Usagef("there is no such command; give the endpoints of masters to --nodes")
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return cli.Usagef("there is no command %q; did you mean %s?", args[0], strings.Join(near, " or "))
	}
	return cli.Usagef("there is no command %q", args[0])
}

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
