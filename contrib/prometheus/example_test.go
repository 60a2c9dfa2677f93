package prometheus_test

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	redprometheus "github.com/redquorum/redquorum/contrib/prometheus"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

func Example() {
	masters, stop := redlocktest.Masters(3)
	defer stop()
	locker, err := redlock.New(masters.Endpoints())
	if err != nil {
		panic(err)
	}
	defer locker.Close()

	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	registry.MustRegister(redprometheus.NewCollector(locker))

	ctx := context.Background()
	lock, err := locker.Lock(ctx, "orders/42")
	if err != nil {
		panic(err)
	}
	defer lock.Unlock(ctx)

	families, err := registry.Gather() // as Prometheus does
	if err != nil {
		panic(err)
	}
	for _, family := range families {
		if name := family.GetName(); name == "redquorum_locks_held" || name == "redquorum_quorum_nodes" {
			fmt.Println(name, family.GetMetric()[0].GetGauge().GetValue())
		}
	}
	// Output:
	// redquorum_locks_held 1
	// redquorum_quorum_nodes 2
}
