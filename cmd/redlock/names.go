package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
)

// ownKeys are what somebody may find at a master beside locks (docs/operations.md).
var ownKeys = []struct{ begins, what string }{
	{"redquorum:memory", "shows that the master has forgotten nothing: do not delete it"},
	{"redquorum:members", "the list of the cluster's masters: do not delete it"},
	{"redquorum:wait:", "the wait list of the lock NAME"},
	{"redquorum:waits:", "the sign that somebody waits for the lock NAME"},
	{"redquorum:others:", "the turns that other libraries have at the lock NAME"},
	{"redquorum:fence:", "the fencing counter of the lock NAME"},
	{"redquorum:adopt:", "notes that a lock is being adopted: its name and its new value are NAME"},
	{"redquorum:readers:", "the readers of the shared lock NAME"},
	{"redquorum:intent:", "the sign that a writer waits for the readers of the lock NAME"},
	{"redquorum:permits:", "the number of permits of the semaphore NAME"},
	{"redquorum:permit:wait:", "the wait list of the semaphore NAME"},
	{"redquorum:terms:", "the newest terms of the election NAME"},
	{"redquorum:log", "the log of the masters: see redlock log"},
	{"redquorum:doctor:", "what redlock doctor wrote to try the master; it expires soon"},
}

// oneName accepts exactly one name. It never shows what else it was given.
func oneName(command string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 || args[0] == "" {
			return cli.Usagef("%s takes the name of one lock; give the endpoints of masters to --nodes", command)
		}
		if err := cli.CheckName(args[0]); err != nil {
			return err
		}
		for _, own := range ownKeys {
			if name, is := strings.CutPrefix(args[0], own.begins); is {
				what := strings.ReplaceAll(own.what, "NAME", strconv.Quote(name))
				return cli.Usagef("%q is no lock, but %s", args[0], what)
			}
		}
		return nil
	}
}
