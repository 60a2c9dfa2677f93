package otel

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// RegisterMetrics makes observable instruments of the figures of [redlock.Locker.Stats], for the
// Locker and for each of its nodes. They are read when the program's reader collects; nothing runs
// in between, and no master is asked. Unregister of the result ends that, and lets the Locker go; a
// Locker that was closed keeps its last figures until then.
//
// The attribute "node" is the endpoint without user and password. Two Lockers with one meter
// provider need different attributes ([WithAttributes]), or their figures mix.
//
// Errors: [redlock.ErrInvalid] if locker is nil, and those of the meter provider.
func RegisterMetrics(locker *redlock.Locker, opts ...Option) (metric.Registration, error) {
	if locker == nil {
		return nil, fmt.Errorf("otel: %w: locker is nil", redlock.ErrInvalid)
	}
	c := newConfig(opts)
	m := maker{meter: c.meters.Meter(scope)}
	ofLocker, ofNode := make([]instrument, len(lockerFigures)), make([]instrument, len(nodeFigures))
	for i, f := range lockerFigures {
		ofLocker[i] = m.instrument(f.form)
	}
	for i, f := range nodeFigures {
		ofNode[i] = m.instrument(f.form)
	}
	info, why := m.instrument(nodeInfo), m.instrument(nodeTrouble)
	if m.err != nil {
		return nil, fmt.Errorf("otel: %w", m.err)
	}
	common := attribute.NewSet(c.attributes...)
	return m.meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		stats := locker.Stats()
		for i, f := range lockerFigures {
			ofLocker[i].observe(to, f.value(&stats), metric.WithAttributeSet(common))
		}
		for n := range stats.Nodes {
			node := &stats.Nodes[n]
			if !node.Listed && errors.Is(node.Barred, redlock.ErrNotMember) {
				continue // it was a member; nobody wants its vote any more
			}
			endpoint := attribute.String("node", node.Endpoint)
			attributes := metric.WithAttributeSet(with(common, endpoint))
			for i, f := range nodeFigures {
				ofNode[i].observe(to, f.value(node), attributes)
			}
			server := with(common, endpoint, attribute.String("product", node.Product), attribute.String("version", node.Version))
			info.observe(to, 1, metric.WithAttributeSet(server))
			if err := cmp.Or(node.Barred, node.Err); err != nil {
				word, _ := pool.Trouble(err)
				trouble := attribute.String("trouble", cmp.Or(word, "unreachable"))
				why.observe(to, 1, metric.WithAttributeSet(with(common, endpoint, trouble)))
			}
		}
		return nil
	}, m.all...)
}

// with returns a set with more attributes.
func with(set attribute.Set, more ...attribute.KeyValue) attribute.Set {
	return attribute.NewSet(append(set.ToSlice(), more...)...)
}

// form is what an instrument is made with.
type form struct {
	kind                    kindOfFigure
	name, unit, description string
}

type kindOfFigure int

const (
	counter kindOfFigure = iota // grows
	sum                         // goes up and down; figures of several nodes add up
	gauge                       // any other
)

// figure is one figure of S.
type figure[S any] struct {
	form
	value func(*S) float64
}

// instrument is an observable instrument. Durations are floating-point, all others integers.
type instrument struct {
	integer metric.Int64Observable
	float   metric.Float64Observable
}

func (i instrument) observe(to metric.Observer, value float64, attributes metric.ObserveOption) {
	if i.float != nil {
		to.ObserveFloat64(i.float, value, attributes)
		return
	}
	to.ObserveInt64(i.integer, int64(value), attributes)
}

// maker makes the instruments, and collects errors.
type maker struct {
	meter metric.Meter
	all   []metric.Observable
	err   error
}

func (m *maker) instrument(f form) (made instrument) {
	var all metric.Observable
	var err error
	description, unit := metric.WithDescription(f.description), metric.WithUnit(f.unit)
	switch {
	case f.unit == "s":
		made.float, err = m.meter.Float64ObservableGauge(f.name, description, unit)
		all = made.float
	case f.kind == counter:
		made.integer, err = m.meter.Int64ObservableCounter(f.name, description, unit)
		all = made.integer
	case f.kind == sum:
		made.integer, err = m.meter.Int64ObservableUpDownCounter(f.name, description, unit)
		all = made.integer
	default:
		made.integer, err = m.meter.Int64ObservableGauge(f.name, description, unit)
		all = made.integer
	}
	m.all, m.err = append(m.all, all), errors.Join(m.err, err)
	return made
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
