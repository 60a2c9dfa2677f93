//go:build unix

// Command prove runs everything that shows that the library keeps its promises, and ends with one
// table: step, size, faults, violations, time.
//
//	go run ./internal/proof/prove [-soak] [-run pattern]
//
// It is run from the root of the module. Without -soak, it takes 7 minutes on two cores.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"sync"
	"syscall"

	"github.com/redquorum/redquorum/clock"
)

func main() {
	soak := flag.Bool("soak", false, "run the full sizes, which take hours")
	pattern := flag.String("run", "", "only steps whose name matches this regular expression")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := prove(ctx, *soak, *pattern); err != nil {
		fmt.Fprintln(os.Stderr, "prove:", err)
		stop()
		os.Exit(1)
	}
}

// prove runs the steps, in rows beside each other.
func prove(ctx context.Context, soak bool, pattern string) error {
	matches, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	steps := slices.DeleteFunc(stepsOf(soak), func(s step) bool { return !matches.MatchString(s.name) })
	if len(steps) == 0 {
		return fmt.Errorf("no step matches %q", pattern)
	}
	began := clock.System().Now()
	results := make([]result, len(steps))
	var rows sync.WaitGroup
	for row := range 3 {
		rows.Go(func() {
			for i, s := range steps {
				if s.row == row {
					results[i] = s.run(ctx)
					fmt.Println(results[i].progress())
				}
			}
		})
	}
	rows.Wait()
	if err := printTable(os.Stdout, results, clock.System().Now().Sub(began)); err != nil {
		return err
	}
	var failed []error
	for _, r := range results {
		if r.err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", r.step.name, r.err))
		}
	}
	return errors.Join(failed...)
}
