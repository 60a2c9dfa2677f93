package kubernetes_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// hurry divides all times of the manifests. REDQUORUM_SOAK=1 plays them as they are.
func hurry(d time.Duration) time.Duration {
	if os.Getenv("REDQUORUM_SOAK") == "1" {
		return d
	}
	return d / 12
}

// world is the pods of a StatefulSet, as servers with the configuration of the manifests.
type world struct {
	kit
	t       *testing.T
	made    string // by packaging/secrets
	pods    []*redistest.Server
	address map[string]string // by host:port
	maxTTL  time.Duration
	urls    []string
}

func deploy(t *testing.T, variant string) *world {
	t.Helper()
	w := &world{t: t, kit: load(t, variant), address: map[string]string{}, made: secrets(t)}
	w.maxTTL = hurry(w.kit.maxTTL(t))
	password, err := os.ReadFile(filepath.Join(w.made, "clients", "password"))
	require.NoError(t, err)
	w.urls = w.endpoints(t, "locks", string(password), filepath.Join(w.made, "clients", "ca.crt"))
	for _, url := range w.urls {
		_, host, _ := strings.Cut(url, "@")
		host, _, _ = strings.Cut(host, "?")
		w.address[host] = redistest.FreeAddr(t)
		w.pods = append(w.pods, redistest.StartOne(t, redistest.WithArgs(w.arguments(w.address[host])...)))
	}
	return w
}

// arguments are those of the container and the lines of its file, for a server at this address that
// has its data and a port for our own probe elsewhere.
func (w *world) arguments(address string) (arguments []string) {
	w.t.Helper()
	_, port, err := net.SplitHostPort(address)
	require.NoError(w.t, err)
	arguments = redistest.Directives(w.conf, "dir")
	for i := 0; i < len(w.master.Args); i += 2 {
		switch name, value := w.master.Args[i], w.master.Args[i+1]; name {
		case "--port":
		case "--tls-port":
			arguments = append(arguments, name, port)
		default:
			arguments = append(arguments, name, value)
		}
	}
	for i := range arguments {
		arguments[i] = strings.Replace(arguments[i], "/etc/redlock", filepath.Join(w.made, "masters"), 1)
	}
	return arguments
}

// program is one that locks, in a pod.
func (w *world) program() *redlock.Locker {
	w.t.Helper()
	dialer := pool.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, w.address[address])
	})
	return cluster.NewLocker(w.t, w.urls, redlock.WithTTL(w.maxTTL), redlock.WithMaxTTL(w.maxTTL), redlock.WithFencing(), redlock.WithPool(dialer))
}

// take ends the pod, and its data if it has no volume that stays.
func (w *world) take(pod int) {
	w.t.Helper()
	require.NoError(w.t, w.pods[pod].Kill())
	if w.masters.Spec.VolumeClaimTemplates == nil {
		require.NoError(w.t, w.pods[pod].Forget())
	}
}

// A rollout as the controller of StatefulSets does it: from the last pod to the first, each one
// when the one before has been ready for minReadySeconds. Somebody holds a lock all the while, and
// others take turns at another. No wait lasts as long as a master is away: each of them gets the
// lock again and again before that master is back, and before it has its vote again.
func TestARolloutUnderLoadInterruptsNobody(t *testing.T) {
	for _, variant := range variants {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			const workers, turns = 4, 3
			w := deploy(t, variant)
			holder := w.program()
			lock, err := holder.Lock(t.Context(), "held")
			require.NoError(t, err)
			turn, stop := cluster.Load(t, w.maxTTL, w.program(), w.program(), w.program(), w.program())
			turn.AwaitEach(t, workers, turns)
			for pod := w.masters.Spec.Replicas - 1; pod >= 0; pod-- {
				w.take(pod)
				gone := time.Now()
				turn.AwaitEach(t, workers, turns)
				require.NoError(t, w.pods[pod].Restart())
				turn.AwaitEach(t, workers, turns)
				time.Sleep(hurry(w.pause()))
				t.Logf("%s-%d was away for %v", w.masters.Metadata.Name, pod, time.Since(gone).Round(time.Millisecond))
			}
			turn.AwaitEach(t, workers, turns)
			longest := stop()
			t.Logf("%d locks, the longest time without one %v; MaxTTL %v, pause %v", turn.Len(), longest.Round(time.Millisecond), w.maxTTL, hurry(w.pause()))
			require.NoError(t, lock.Err())
			require.NoError(t, lock.Unlock(t.Context()))
		})
	}
}

// What the pause is for: without it, the second pod goes while the first one has no vote.
func TestARolloutWithoutThePauseLosesTheQuorum(t *testing.T) {
	w := deploy(t, "ephemeral")
	l := w.program()
	require.NoError(t, l.Ready(t.Context()))
	w.take(2)
	require.NoError(t, w.pods[2].Restart())
	w.take(1)
	cluster.Eventually(t, time.Minute, func() string {
		lock, err := l.TryLock(t.Context(), "x")
		if err == nil {
			assert.NoError(t, lock.Unlock(t.Context()))
			return "too few masters"
		}
		assert.ErrorIs(t, err, redlock.ErrNoQuorum)
		return ""
	})
}

// A master with its volume loads all that it has answered, also what scripts wrote with several
// commands: it has the lock and its token, and votes at once.
func TestAMasterThatRestartsWithItsVolumeHasForgottenNothing(t *testing.T) {
	w := deploy(t, "durable")
	l := w.program()
	lock, err := l.Lock(t.Context(), "x", redlock.WithoutRenewal())
	require.NoError(t, err)
	remembers := func() string {
		status, err := admin.Of(l).Inspect(t.Context(), "x")
		if err != nil {
			return err.Error()
		}
		if node := status.Nodes[2]; node.Value != lock.Value() || l.Stats().Nodes[2].Barred != nil {
			return fmt.Sprintf("it has %q and votes: %v, %v", node.Value, node.Err, l.Stats().Nodes[2].Barred)
		}
		return ""
	}
	cluster.Eventually(t, w.maxTTL/2, remembers) // two masters are enough for Lock
	w.take(2)
	require.NoError(t, w.pods[2].Restart())
	cluster.Eventually(t, w.maxTTL/2, remembers)
	require.NoError(t, lock.Unlock(t.Context()))
}

func TestTheProbeTellsWhetherAMasterAnswers(t *testing.T) {
	w := deploy(t, "durable")
	probe := func(words ...string) error {
		host, port, err := net.SplitHostPort(w.address["redlock-masters-0.redlock-masters.redlock.svc:6379"])
		require.NoError(t, err)
		command := slices.Clone(w.master.LivenessProbe.Exec.Command)
		require.Equal(t, []string{"valkey-cli", "ping"}, []string{command[0], command[len(command)-1]})
		for i := range command {
			command[i] = strings.Replace(command[i], "/etc/redlock", filepath.Join(w.made, "masters"), 1)
		}
		arguments := slices.Concat([]string{"-h", host, "-p", port}, command[1:len(command)-1], words)
		out, err := exec.CommandContext(t.Context(), "redis-cli", arguments...).CombinedOutput()
		t.Logf("%v: %s", words, out)
		return err
	}
	require.NoError(t, probe("ping"))
	require.Error(t, probe("get", "x"), "it has no other rights")
	w.take(0)
	require.Error(t, probe("ping"))
}
