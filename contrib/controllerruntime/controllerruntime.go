// Package controllerruntime runs a manager of sigs.k8s.io/controller-runtime while its program
// leads, by an election of package election, in place of a Lease of Kubernetes:
//
//	import redmanager "github.com/redquorum/redquorum/contrib/controllerruntime"
//
//	candidate, err := election.New(locker, "operator")
//	if err != nil {
//		return err
//	}
//	return redmanager.Run(ctx, candidate, config, manager.Options{}, func(m manager.Manager) error {
//		return builder.ControllerManagedBy(m).For(&appsv1.Deployment{}).Complete(reconciler)
//	})
//
// At most one program reconciles at any moment, also where several clusters of Kubernetes share the
// work. Each leadership has a term, which grows: [Term] tells it to what the manager runs.
package controllerruntime

import (
	"context"
	"fmt"
	"maps"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/redquorum/redquorum/election"
)

// Run campaigns ([election.Election.Run]). For each term it makes a manager, calls setup to add
// what it runs, and starts it, until ctx ends.
//
// The context of everything that the manager runs is that of the term. It ends at once when the
// leadership does: when ctx ends, with [election.Election.Resign], or when the lock is lost;
// context.Cause says why. Run does not give the leadership up, and does not campaign again, before
// all of it has returned, however long that takes. If the lock was lost, another program may
// reconcile meanwhile: what must never happen twice needs the term ([Term]).
//
// If setup fails, or the manager while it leads, Run gives the leadership up and returns the error.
// It returns nil when ctx has ended. The other errors are those of [election.Election.Run], and
// [election.ErrInvalid] for an argument that is nil and for options that contradict this: an
// election of Kubernetes, a limit for the shutdown, a BaseContext (its values belong into ctx), or
// an object that cannot serve one manager after the other, such as an EventBroadcaster. Each term
// has a webhook server of its own, with the options of opts.WebhookServer; setup registers the
// webhooks at the GetWebhookServer of its manager. Make in setup what setup adds to the manager:
// nothing can be started twice.
//
// A candidate that does not lead has no manager, and so no cache, no webhooks, no metrics and no
// probes: serve probes elsewhere, or Kubernetes restarts it. Names of controllers are not checked,
// because each term uses them again.
func Run(
	ctx context.Context, candidate *election.Election, config *rest.Config, opts manager.Options, setup func(m manager.Manager) error,
) error {
	if err := check(candidate, config, &opts, setup); err != nil {
		return err
	}
	newCache := opts.NewCache
	if newCache == nil {
		newCache = cache.New
	}
	return candidate.Run(ctx, func(ctx context.Context, term int64) error {
		ctx, end := context.WithCancel(context.WithValue(ctx, termKey{}, term))
		defer end()
		of := fresh(opts)
		// The manager ends its parts one after the other: without this, a part that takes long
		// would leave controllers running while another program leads.
		of.BaseContext = func() context.Context { return ctx }
		of.NewCache = func(config *rest.Config, opts cache.Options) (cache.Cache, error) {
			made, err := newCache(config, opts)
			return endingCache{made}, err
		}
		m, err := manager.New(config, of)
		if err != nil {
			return fmt.Errorf("controllerruntime: %w", err)
		}
		err = setup(endingManager{m})
		if err == nil { // webhooks that were registered at the server of opts would not be served
			err = invalid(checkWebhooks(opts.WebhookServer))
		}
		if err != nil {
			// The manager has the ports of probes and of pprof since it was made. It closes them
			// only when it ends.
			end()
			_ = m.Start(ctx) //nolint:errcheck // the error of setup is the one to tell
			return err
		}
		if err := m.Start(ctx); ctx.Err() == nil {
			return err
		}
		return nil // whatever did not start because the term had ended
	})
}

// A manager starts the next of its parts when the caches of the last are filled, and asks for that
// with the base context. It does not look at why they are not: with a term that has ended it would
// wait forever, and keep a processor busy. So to a context that has ended, caches say that they
// are.
type endingCache struct{ cache.Cache }

func (c endingCache) WaitForCacheSync(ctx context.Context) bool {
	return c.Cache.WaitForCacheSync(ctx) || ctx.Err() != nil
}

// endingManager has the same of further clusters.
type endingManager struct{ manager.Manager }

func (m endingManager) Add(part manager.Runnable) error {
	if p, ok := part.(cachedPart); ok {
		part = endingPart{p}
	}
	return m.Manager.Add(part)
}

type cachedPart interface {
	manager.Runnable
	GetCache() cache.Cache
}

type endingPart struct{ cachedPart }

func (p endingPart) GetCache() cache.Cache { return endingCache{p.cachedPart.GetCache()} }

// check reports what is wrong with the arguments, and completes the options.
func check(candidate *election.Election, config *rest.Config, opts *manager.Options, setup func(m manager.Manager) error) error {
	wrong := ""
	switch {
	case candidate == nil:
		wrong = "candidate is nil"
	case config == nil:
		wrong = "config is nil"
	case setup == nil:
		wrong = "setup is nil"
	case opts.LeaderElection || opts.LeaderElectionResourceLockInterface != nil:
		wrong = "LeaderElection is set: the candidate is the election"
	case opts.GracefulShutdownTimeout != nil && *opts.GracefulShutdownTimeout >= 0:
		wrong = "GracefulShutdownTimeout is not negative: what still ran then would run beside the next leader's"
	case opts.BaseContext != nil:
		wrong = "BaseContext is set: give its values to ctx"
	case opts.EventBroadcaster != nil: //nolint:staticcheck // deprecated, and still used by managers
		wrong = "EventBroadcaster is set: it would write the events of the second term twice"
	default:
		wrong = checkWebhooks(opts.WebhookServer)
	}
	if wrong != "" {
		return invalid(wrong)
	}
	forever, again := time.Duration(-1), true
	opts.GracefulShutdownTimeout = &forever
	if opts.Controller.SkipNameValidation == nil {
		opts.Controller.SkipNameValidation = &again
	}
	return nil
}

// invalid returns nil if nothing is wrong.
func invalid(wrong string) error {
	if wrong == "" {
		return nil
	}
	return fmt.Errorf("controllerruntime: %w: %s", election.ErrInvalid, wrong)
}

// checkWebhooks reports why a webhook server cannot be made anew for each term.
func checkWebhooks(server webhook.Server) string {
	if server == nil {
		return ""
	}
	known, ok := server.(*webhook.DefaultServer)
	switch {
	case !ok || known == nil:
		return "WebhookServer is not from webhook.NewServer: it cannot be made anew for each term"
	case known.Options.WebhookMux != nil: // NewServer leaves it nil, and the first webhook sets it
		return "WebhookServer has webhooks, or a mux, already: register webhooks in setup, at GetWebhookServer of its manager"
	default:
		return ""
	}
}

// fresh returns the options for one manager. A manager writes into what they point to, or starts
// it: that would be left over for the manager of the next term.
func fresh(opts manager.Options) manager.Options {
	if server, ok := opts.WebhookServer.(*webhook.DefaultServer); ok {
		opts.WebhookServer = webhook.NewServer(server.Options)
	}
	if opts.Client.Cache != nil { // whose Reader becomes the cache of the manager
		of := *opts.Client.Cache
		opts.Client.Cache = &of
	}
	opts.Metrics.ExtraHandlers = maps.Clone(opts.Metrics.ExtraHandlers)
	return opts
}

type termKey struct{}

// Term returns the term of a context that the manager gave: a fencing token, larger than that of
// every earlier leader, on whichever machine. Store it with what you write outside Kubernetes, and
// refuse smaller ones there (package fence). For any other context, ok is false.
func Term(ctx context.Context) (term int64, ok bool) {
	term, ok = ctx.Value(termKey{}).(int64)
	return term, ok
}
