package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/redlock"
)

// demo is one run: nodes, Lockers over them, and workers that contend.
type demo struct {
	config    demoConfig
	clock     clock.Clock
	embedded  *embedded // nil where the nodes are the user's own
	endpoints []string  // as they may be shown
	lockers   []*redlock.Locker
	record    *recorder
	out       *output
}

// runDemo runs a demo for as long as it is configured to last, or until ctx ends, and writes what happens and what came of
// it. All its goroutines have ended when it returns. The error is that of the verdict, or why there is none.
func runDemo(ctx context.Context, cfg demoConfig, w io.Writer) error {
	out := &output{w: w}
	rep, err := playDemo(ctx, cfg, out)
	if err != nil {
		return err
	}
	out.print(rep.text())
	return errors.Join(rep.err(), out.failure())
}

func playDemo(ctx context.Context, cfg demoConfig, out *output) (report, error) {
	d := &demo{config: cfg, clock: clock.System(), out: out}
	defer d.close()
	if err := d.open(ctx); err != nil {
		return report{}, err
	}
	return d.play(ctx), nil
}

// open starts what the workers need, and waits until a quorum of nodes answers.
func (d *demo) open(ctx context.Context) error {
	d.record = newRecorder(d.clock, demoNames)
	endpoints := d.config.nodes
	if len(endpoints) == 0 {
		var err error
		if d.embedded, err = startEmbedded(embeddedNodes); err != nil {
			return err
		}
		endpoints = d.embedded.endpoints
	}
	for range d.config.lockers() {
		locker, err := redlock.New(endpoints, redlock.WithTTL(demoTTL), redlock.WithKeyPrefix(demoKeyPrefix),
			redlock.WithRetry(d.config.retry()), redlock.WithOwner("redlock demo"))
		if errors.Is(err, redlock.ErrInvalid) {
			return usagef("--nodes: %s", strings.TrimPrefix(err.Error(), redlock.ErrInvalid.Error()+": "))
		}
		if err != nil {
			return err
		}
		d.lockers = append(d.lockers, locker)
	}
	for _, n := range observe(d.lockers) {
		d.endpoints = append(d.endpoints, n.endpoint)
	}
	return d.ready(ctx)
}

// ready waits until a quorum answers every Locker. The error has a line for each node that does not.
func (d *demo) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, demoReadyBound)
	defer cancel()
	for _, locker := range d.lockers {
		err := locker.Ready(ctx)
		var failure *redlock.QuorumError
		switch {
		case err == nil:
			continue
		case errors.Is(err, context.Canceled):
			return errors.New("ended before a quorum of nodes had answered")
		case errors.As(err, &failure):
			err = fmt.Errorf("no quorum of nodes answered within %v", demoReadyBound)
			for _, node := range failure.Nodes.WrappedErrors() {
				err = fmt.Errorf("%w\n  %w", err, node)
			}
		}
		return err
	}
	return nil
}

// close ends the Lockers, which release what is left, and then the nodes.
func (d *demo) close() {
	var all sync.WaitGroup
	for _, locker := range d.lockers {
		all.Go(func() { _ = locker.Close() }) //nolint:errcheck // always nil
	}
	all.Wait()
	if d.embedded != nil {
		d.embedded.close()
	}
}

// play lets the workers work, and reports.
func (d *demo) play(ctx context.Context) report {
	d.out.print(d.title() + "\n" + d.expectation() + "\n\n")
	run, cancel := context.WithTimeout(ctx, d.config.duration)
	defer cancel()
	start := d.clock.Now()
	v := d.newView(start)
	var changes []change // of the outage's goroutine, until all have ended
	var all sync.WaitGroup
	for i := range d.config.workers {
		w := worker{number: i + 1, locker: d.lockers[i/workersPerLocker], record: d.record}
		all.Go(func() { w.run(run) })
	}
	if d.embedded != nil {
		all.Go(func() {
			outage(run, d.embedded, planOutage(d.config.duration), d.clock, start, func(c change) {
				changes = append(changes, c)
				v.changed(c)
			})
		})
	}
	all.Go(func() { v.run(run) })
	all.Wait()
	rep := newReport(d.record, start, d.clock.Now().Sub(start), len(d.endpoints), changes)
	rep.embedded, rep.interrupted = d.embedded != nil, ctx.Err() != nil
	return rep
}

func (d *demo) newView(start clock.Instant) view {
	look := func() snapshot {
		counts, locks := d.record.now()
		return snapshot{
			elapsed: d.clock.Now().Sub(start), total: d.config.duration, title: d.title(),
			locks: locks, nodes: observe(d.lockers), counts: counts,
		}
	}
	if d.config.screen != nil {
		return &liveView{out: d.out, screen: d.config.screen, endpoints: d.endpoints, look: look}
	}
	return &plainView{out: d.out, endpoints: d.endpoints, look: look}
}

func (d *demo) title() string {
	nodes := "embedded node"
	if d.embedded == nil {
		nodes = "given node"
	}
	return fmt.Sprintf("%s on %s, %s on %s; a lock takes %s.", plural(d.config.workers, "worker"), plural(len(d.lockers), "Locker"),
		plural(len(demoNames), "lock"), plural(len(d.endpoints), nodes), plural(len(d.endpoints)/2+1, "vote"))
}

func (d *demo) expectation() string {
	if d.embedded == nil {
		return "The nodes are yours, so none is stopped. Keys: " + demoKeyPrefix + strings.Join(demoNames, ", "+demoKeyPrefix) + "."
	}
	return "On the way two nodes are stopped and brought back. The workers should not notice."
}
