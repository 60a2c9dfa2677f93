package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// demo is one run: nodes and contending workers, each with its own Locker.
type demo struct {
	config   config
	out      *output
	embedded *embedded // nil if the user gave the nodes
	nodes    int
	workers  []*worker
}

// run runs a demo for its configured duration, or until ctx ends, and writes what happens and the
// report. All its goroutines have ended when it returns. The error is the verdict, or why there is
// none.
func run(ctx context.Context, cfg config, w io.Writer) error {
	out := &output{w: w}
	rep, err := play(ctx, cfg, out)
	if err != nil {
		return err
	}
	out.print(rep.text(cfg.look))
	return errors.Join(rep.err(), out.failure())
}

func play(ctx context.Context, cfg config, out *output) (report, error) {
	d := &demo{config: cfg, out: out}
	defer d.close()
	if err := d.open(ctx); err != nil {
		return report{}, err
	}
	return d.play(ctx), nil
}

// open starts what the workers need, and waits until a quorum of nodes answers.
func (d *demo) open(ctx context.Context) error {
	endpoints := d.config.nodes
	if len(endpoints) == 0 {
		var err error
		if d.embedded, err = startEmbedded(embeddedNodes); err != nil {
			return err
		}
		endpoints = d.embedded.endpoints
	}
	d.nodes = len(endpoints)
	for i := range d.config.workers {
		w := &worker{number: i + 1, config: &d.config, cable: newCable()}
		locker, err := redlock.New(endpoints, redlock.WithTTL(d.config.ttl()), redlock.WithKeyPrefix(keyPrefix),
			redlock.WithFencing(), redlock.WithRetry(d.config.retry()),
			redlock.WithOwner(fmt.Sprintf("redlock demo, worker %d", w.number)),
			redlock.WithPool(pool.WithDialer(w.cable.dial)))
		if errors.Is(err, redlock.ErrInvalid) {
			return cli.Usagef("--nodes: %s", cli.Reason(err, redlock.ErrInvalid))
		}
		if err != nil {
			return err
		}
		w.locker = locker
		d.workers = append(d.workers, w)
	}
	return d.ready(ctx)
}

// ready waits until a quorum answers each Locker. The error has a line for each node that does not
// answer.
func (d *demo) ready(ctx context.Context) error {
	bound := cmp.Or(d.config.ready, readyBound)
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	for _, w := range d.workers {
		err := w.locker.Ready(ctx)
		var failure *redlock.QuorumError
		switch {
		case err == nil:
			continue
		case errors.Is(err, context.Canceled):
			return errors.New("ended before a quorum of nodes had answered")
		case errors.As(err, &failure):
			err = fmt.Errorf("no quorum of nodes answered within %v", bound)
			for _, node := range failure.Nodes {
				err = fmt.Errorf("%w\n  %w", err, node)
			}
		}
		return err
	}
	return nil
}

// close closes the Lockers, which release what is left, and then the nodes.
func (d *demo) close() {
	var all sync.WaitGroup
	for _, w := range d.workers {
		all.Go(func() { _ = w.locker.Close() }) //nolint:errcheck // masters may be away
	}
	all.Wait()
	if d.embedded != nil {
		d.embedded.close()
	}
}

// play lets the workers work, and reports.
func (d *demo) play(ctx context.Context) report {
	d.out.print(d.title() + "\n")
	var tell func(event)
	if !d.config.look.Live {
		d.out.print("\n")
		width, _ := d.config.look.Size()
		tell = func(e event) {
			d.out.print(terminal.Look{}.Text(e.lines(width)))
		}
	}
	record := newRecorder(clock.System(), d.config.workers, d.nodes, tell)
	order := &stopOrder{at: d.config.stopAt(), done: make(chan struct{})}
	run, cancel := context.WithCancel(ctx)
	defer cancel()
	guarded := &store{}
	var all sync.WaitGroup
	for _, w := range d.workers {
		w.record, w.order, w.store = record, order, guarded
		all.Go(func() { w.run(run) })
	}
	if d.embedded != nil {
		all.Go(func() { outage(run, d.embedded, planOutage(d.config.duration), record) })
	}
	if d.config.look.Live {
		v := &liveView{out: d.out, look: d.config.look, title: d.title(), total: d.config.duration, now: record.now}
		all.Go(func() { v.run(run) })
	}
	d.await(run, order.done)
	cancel()
	all.Wait()
	rep := newReport(record.now())
	rep.embedded, rep.interrupted, rep.ttl = d.embedded != nil, ctx.Err() != nil, d.config.ttl()
	for _, w := range d.workers {
		rep.add(w.locker.Stats())
	}
	return rep
}

// await returns when the demo is over: after its duration, or somewhat later if the stopped worker
// has not written by then.
func (d *demo) await(ctx context.Context, written <-chan struct{}) {
	if !sleep(ctx, d.config.duration) {
		return
	}
	overtime := time.NewTimer(overtimeBound)
	defer overtime.Stop()
	select {
	case <-written:
	case <-overtime.C:
	case <-ctx.Done():
	}
}

func (d *demo) title() string {
	nodes := "embedded node"
	if d.embedded == nil {
		nodes = "given node"
	}
	return fmt.Sprintf("redlock demo: %s, one lock, %s; the lock takes %s.", prose.Plural(d.config.workers, "worker"),
		prose.Plural(d.nodes, nodes), prose.Plural(d.nodes/2+1, "vote"))
}
