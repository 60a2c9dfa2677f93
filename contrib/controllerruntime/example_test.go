package controllerruntime_test

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	redmanager "github.com/redquorum/redquorum/contrib/controllerruntime"
	"github.com/redquorum/redquorum/election"
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
	candidate, err := election.New(locker, "operator")
	if err != nil {
		panic(err)
	}

	ctx, cancel := context.WithCancel(context.Background()) // yours: signals.SetupSignalHandler()
	defer cancel()
	config := &rest.Config{Host: "127.0.0.1:1"} // yours: config.GetConfig()
	options := manager.Options{Metrics: server.Options{BindAddress: "0"}}
	err = redmanager.Run(ctx, candidate, config, options, func(m manager.Manager) error {
		// Yours: builder.ControllerManagedBy(m).For(...).Complete(reconciler)
		return m.Add(manager.RunnableFunc(func(ctx context.Context) error {
			_, ok := redmanager.Term(ctx)
			fmt.Println("leads:", candidate.IsLeader(), ok)
			cancel()
			return nil
		}))
	})
	fmt.Println(err, candidate.IsLeader())
	// Output:
	// leads: true true
	// <nil> false
}
