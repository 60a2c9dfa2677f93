package main

import (
	"context"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func newDemoCommand() *cobra.Command {
	cfg := demoConfig{duration: 10 * time.Second, workers: 12}
	var nodes []string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show that locks survive the loss of two of five masters",
		Long: `demo starts five Redis masters inside this process and lets workers contend for three locks. On the
way two of the masters are stopped, connections and all, and later brought back with their data. At the end
it tells what the workers noticed of it, and checks from the recorded times that no two of them ever held the
same lock at once.

With --nodes it uses your own Redis masters in place of the embedded ones, and stops none of them. It writes
the keys redlock-demo:* there, each for two seconds at most. REDLOCK_NODES is not looked at: a demo does not
go to production by itself.

On a terminal the state is shown live; otherwise, and where TERM is dumb, as lines. NO_COLOR is respected.
Ctrl-C ends it early, with the table.

Exit status: 0; 1 when two workers held a lock at once, or none ever got one; 64 for a wrong command line.`,
		Example: `  redlock demo
  redlock demo --duration 5s --workers 40
  redlock demo --nodes redis://a:6379,redis://b:6379,rediss://user:password@c:6380
  redlock demo | tee demo.txt`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 { // not shown: it may be an endpoint with a password
				return usagef("demo takes no arguments; give the endpoints of nodes to --nodes, with commas and no spaces between them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.nodes = splitNodes(nodes)
			if err := cfg.check(cmd.Flags().Changed("nodes")); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // a second signal ends the process at once
			cfg.screen = screenOf(cmd.OutOrStdout())
			return runDemo(ctx, cfg, cmd.OutOrStdout())
		},
	}
	cmd.Flags().DurationVar(&cfg.duration, "duration", cfg.duration, "how long the workers work, from 1s to 10m")
	cmd.Flags().IntVar(&cfg.workers, "workers", cfg.workers, "how many workers contend, from 1 to 128")
	// Not a StringSlice: its errors show what they could not read, password and all.
	cmd.Flags().StringArrayVar(&nodes, "nodes", nil, "`endpoints` of Redis masters to use in place of embedded ones:\n"+
		"redis://, rediss://, unix:// or host:port; separated by commas, or repeated")
	return cmd
}
