package controllerruntime_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kubernetes "sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	redmanager "github.com/redquorum/redquorum/contrib/controllerruntime"
	"github.com/redquorum/redquorum/election"
	"github.com/redquorum/redquorum/internal/proof/docs"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/redlock"
	"github.com/redquorum/redquorum/redlock/redlocktest"
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	cluster.Main(m)
}

// nowhere is where no Kubernetes is. A manager asks it nothing unless its controllers do.
var nowhere = &rest.Config{Host: "127.0.0.1:1"}

// options are those of a manager without a port.
var options = manager.Options{Metrics: server.Options{BindAddress: "0"}}

func newCandidate(t *testing.T, locker *redlock.Locker) *election.Election {
	t.Helper()
	candidate, err := election.New(locker, "operator")
	require.NoError(t, err)
	return candidate
}

// once gives a manager a controller that reconciles one request.
func once(m manager.Manager, reconciler reconcile.Func) error {
	c, err := controller.New("once", m, controller.Options{Reconciler: reconciler})
	if err != nil {
		return err
	}
	return c.Watch(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: "one"}})
		return nil
	}))
}

// running runs a manager in a goroutine until end is called, which returns what Run did.
func running(t *testing.T, candidate *election.Election, setup func(m manager.Manager) error) (end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- redmanager.Run(ctx, candidate, nowhere, options, setup) }()
	return func() error {
		cancel()
		return next(t, ended)
	}
}

// next waits for what happens soon on an idle machine.
func next[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(time.Minute):
		t.Fatal("nothing within a minute")
		panic("unreachable")
	}
}

// A manager whose lock is lost ends, and says why to what it ran. The next term has a new one, with
// controllers of the same names.
func TestEachTermHasAManagerWhoseControllersKnowIt(t *testing.T) {
	masters := redlocktest.Start(t, 3)
	candidate := newCandidate(t, masters.Locker(t, redlock.WithTTL(2*time.Second)))
	terms, causes := make(chan int64, 2), make(chan error, 2)
	end := running(t, candidate, func(m manager.Manager) error {
		return once(m, func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
			term, ok := redmanager.Term(ctx)
			assert.True(t, ok)
			terms <- term
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return reconcile.Result{}, nil
		})
	})
	first := next(t, terms)
	leader, err := candidate.Leader(t.Context())
	require.NoError(t, err)
	assert.Equal(t, leader.Term, first)

	masters.Expire("operator")
	require.ErrorIs(t, next(t, causes), redlock.ErrLost)
	second := next(t, terms)
	assert.Greater(t, second, first)

	resigned := make(chan error, 1)
	go func() { resigned <- candidate.Resign(t.Context()) }()
	require.ErrorIs(t, next(t, causes), election.ErrResigned)
	require.NoError(t, next(t, resigned))
	assert.Greater(t, next(t, terms), second)
	assert.NoError(t, end())
}

// A part of the manager that takes long to end neither keeps the controllers going, nor lets
// another program begin.
func TestNobodyReconcilesBeforeTheLastManagerHasEnded(t *testing.T) {
	masters := redlocktest.Start(t, 3)
	began, stopped := make(chan struct{}, 2), make(chan struct{}, 2)
	mayEnd := make(chan struct{})
	var active atomic.Int32
	setup := func(slow bool) func(m manager.Manager) error {
		return func(m manager.Manager) error {
			if slow {
				if err := m.Add(other(func(ctx context.Context) error {
					<-ctx.Done()
					<-mayEnd
					active.Add(-1)
					return nil
				})); err != nil {
					return err
				}
			}
			return once(m, func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
				assert.Equal(t, int32(1), active.Add(1), "managers that have not ended")
				began <- struct{}{}
				<-ctx.Done()
				if !slow {
					active.Add(-1)
				}
				stopped <- struct{}{}
				return reconcile.Result{}, nil
			})
		}
	}
	first := newCandidate(t, masters.Locker(t))
	endFirst := running(t, first, setup(true))
	next(t, began)
	endSecond := running(t, newCandidate(t, masters.Locker(t)), setup(false))

	resigned := make(chan error, 1)
	go func() { resigned <- first.Resign(t.Context()) }()
	next(t, stopped) // although the other part goes on
	select {
	case <-began:
		t.Fatal("the second one reconciles while the first manager has not ended")
	case err := <-resigned:
		t.Fatal("resigned before the manager has ended", err)
	case <-time.After(100 * time.Millisecond): // it would be quick
	}
	close(mayEnd)
	require.NoError(t, next(t, resigned))
	next(t, began)
	require.NoError(t, endSecond())
	require.NoError(t, endFirst())
}

// other is a part of a manager that is no controller: it is ended before them.
type other func(ctx context.Context) error

func (f other) Start(ctx context.Context) error { return f(ctx) }

func (other) NeedLeaderElection() bool { return false }

func TestAnErrorOfTheManagerOrItsSetupEndsTheRun(t *testing.T) {
	masters := redlocktest.Start(t, 3)
	failure := errors.New("no such thing")
	for name, setup := range map[string]func(m manager.Manager) error{
		"setup": func(manager.Manager) error { return failure },
		"a part": func(m manager.Manager) error {
			return m.Add(manager.RunnableFunc(func(context.Context) error { return failure }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			candidate := newCandidate(t, masters.Locker(t))
			require.ErrorIs(t, redmanager.Run(t.Context(), candidate, nowhere, options, setup), failure)
			assert.False(t, candidate.IsLeader())
			assert.Empty(t, masters.Holder("operator"))
		})
	}
	_, ok := redmanager.Term(t.Context())
	assert.False(t, ok)
}

// A manager has the port of its probes since it was made.
func TestAfterASetupThatFailedTheNextManagerHasThePorts(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	opts := options
	opts.HealthProbeBindAddress = listener.Addr().String()
	candidate := newCandidate(t, redlocktest.Start(t, 3).Locker(t))
	failure := errors.New("no such thing")
	for range 3 {
		require.ErrorIs(t, redmanager.Run(t.Context(), candidate, nowhere, opts, func(m manager.Manager) error { return failure }), failure)
	}
}

// Ten times, because a manager that would hang does so now and then only.
func TestATermThatEndsDuringTheSetupEndsTheManager(t *testing.T) {
	masters := redlocktest.Start(t, 3)
	candidate := newCandidate(t, masters.Locker(t))
	for range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- redmanager.Run(ctx, candidate, nowhere, options, func(manager.Manager) error {
				cancel()
				return nil
			})
		}()
		require.NoError(t, next(t, ended))
		assert.Empty(t, masters.Holder("operator"))
	}
}

// An API server that is overloaded, so that caches never fill, keeps no program from ending.
func TestATermEndsWhileCachesFill(t *testing.T) {
	for name, setup := range map[string]func(m manager.Manager, api *rest.Config) error{
		"of the manager": func(m manager.Manager, _ *rest.Config) error {
			_, err := m.GetCache().GetInformer(context.Background(), new(corev1.Pod))
			return err
		},
		"of a further cluster": func(m manager.Manager, api *rest.Config) error {
			further, err := kubernetes.New(api)
			if err != nil {
				return err
			}
			if _, err = further.GetCache().GetInformer(context.Background(), new(corev1.Pod)); err != nil {
				return err
			}
			return m.Add(further)
		},
		"of a controller": func(m manager.Manager, _ *rest.Config) error {
			c, err := controller.New("pods", m, controller.Options{Reconciler: reconcile.Func(nil)})
			if err != nil {
				return err
			}
			return c.Watch(source.Kind(m.GetCache(), new(corev1.Pod), &handler.TypedEnqueueRequestForObject[*corev1.Pod]{}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan struct{}, 1)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				body := map[string]string{
					"/api":    `{"kind":"APIVersions","versions":["v1"]}`,
					"/apis":   `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
					"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","namespaced":true,"kind":"Pod","verbs":["list","watch"]}]}`,
				}[r.URL.Path]
				if body == "" {
					select {
					case asked <- struct{}{}:
					default:
					}
					w.WriteHeader(http.StatusServiceUnavailable)
				}
				_, _ = w.Write([]byte(body))
			}))
			t.Cleanup(server.Close)
			api := &rest.Config{Host: server.URL}
			masters := redlocktest.Start(t, 3)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- redmanager.Run(ctx, newCandidate(t, masters.Locker(t)), api, options, func(m manager.Manager) error { return setup(m, api) })
			}()
			next(t, asked)
			cancel()
			require.NoError(t, next(t, ended))
			assert.Empty(t, masters.Holder("operator"))
		})
	}
}

// A manager starts what its options point to, or writes into it.
func TestALaterTermFindsNothingOfAnEarlierOneInTheOptions(t *testing.T) {
	masters := redlocktest.Start(t, 3)
	candidate := newCandidate(t, masters.Locker(t))
	opts := options
	opts.Metrics = server.Options{BindAddress: "127.0.0.1:0", ExtraHandlers: map[string]http.Handler{"/own": http.NotFoundHandler()}}
	opts.Client.Cache = &client.CacheOptions{Unstructured: true}
	opts.WebhookServer = webhook.NewServer(webhook.Options{Port: -1, CertName: "own.crt"})
	ctx, cancel := context.WithCancel(t.Context())
	terms := 0
	err := redmanager.Run(ctx, candidate, nowhere, opts, func(m manager.Manager) error {
		terms++
		made, ok := m.GetWebhookServer().(*webhook.DefaultServer)
		require.True(t, ok)
		assert.Equal(t, "own.crt", made.Options.CertName)
		made.Register("/validate", http.NotFoundHandler())
		assert.Nil(t, opts.Client.Cache.Reader, "the cache of an earlier term")
		return errors.Join(m.AddMetricsServerExtraHandler("/more", http.NotFoundHandler()),
			m.Add(manager.RunnableFunc(func(term context.Context) error {
				if terms == 3 {
					cancel()
				}
				go func() { _ = candidate.Resign(ctx) }()
				<-term.Done()
				return nil
			})))
	})
	require.NoError(t, err)
	assert.Equal(t, 3, terms)
}

func TestWhatWouldLetTwoManagersRunIsRefused(t *testing.T) {
	candidate := newCandidate(t, redlocktest.Start(t, 1).Locker(t))
	setup := func(manager.Manager) error { return nil }
	second := time.Second
	used := webhook.NewServer(webhook.Options{})
	used.Register("/validate", http.NotFoundHandler())
	for text, opts := range map[string]manager.Options{
		"LeaderElection is set":                  {LeaderElection: true},
		"the candidate is the election":          {LeaderElectionResourceLockInterface: new(resourcelock.LeaseLock)},
		"GracefulShutdownTimeout is not":         {GracefulShutdownTimeout: &second},
		"BaseContext is set: give its values to": {BaseContext: t.Context},
		"EventBroadcaster is set":                {EventBroadcaster: record.NewBroadcaster()},
		"WebhookServer is not from":              {WebhookServer: struct{ webhook.Server }{}},
		"WebhookServer has webhooks, or a mux":   {WebhookServer: webhook.NewServer(webhook.Options{WebhookMux: http.NewServeMux()})},
		"already: register webhooks in setup":    {WebhookServer: used},
	} {
		err := redmanager.Run(t.Context(), candidate, nowhere, opts, setup)
		require.ErrorIs(t, err, election.ErrInvalid)
		assert.ErrorContains(t, err, text)
	}
	opts := options
	opts.WebhookServer = webhook.NewServer(webhook.Options{})
	require.ErrorIs(t, redmanager.Run(t.Context(), candidate, nowhere, opts, func(manager.Manager) error {
		opts.WebhookServer.Register("/validate", http.NotFoundHandler())
		return nil
	}), election.ErrInvalid)
	require.ErrorIs(t, redmanager.Run(t.Context(), nil, nowhere, options, setup), election.ErrInvalid)
	require.ErrorIs(t, redmanager.Run(t.Context(), candidate, nil, options, setup), election.ErrInvalid)
	require.ErrorIs(t, redmanager.Run(t.Context(), candidate, nowhere, options, nil), election.ErrInvalid)
}

func TestTheCodeOfTheReadmeCompiles(t *testing.T) {
	docs.RequireReadme(t, 2, `
		var (
			ctx        context.Context
			locker     *redlock.Locker
			config     *rest.Config
			reconciler reconcile.Reconciler
			store      interface{ Save(report string, term int64) error }
		)
		type Reporter struct{}`,
		"context", "errors", "k8s.io/client-go/rest", "appsv1=k8s.io/api/apps/v1",
		"sigs.k8s.io/controller-runtime/pkg/builder", "sigs.k8s.io/controller-runtime/pkg/manager", "sigs.k8s.io/controller-runtime/pkg/reconcile",
		"github.com/redquorum/redquorum/election", "redmanager=github.com/redquorum/redquorum/contrib/controllerruntime")
}
