package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

func TestExitStatusTellsUsageFromFailure(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("any other"), ExitFailed},
		{Usagef("--workers: %d", 0), ExitUsage},
		{fmt.Errorf("demo: %w", Usagef("--nodes")), ExitUsage},
		{fmt.Errorf("run: %w", StatusError{Status: ExitLost}), ExitLost},
	} {
		assert.Equal(t, c.want, ExitStatus(c.err), c.err)
	}
}

func TestReasonIsTheTextWithoutThatOfTheSentinel(t *testing.T) {
	assert.Equal(t, "its validity has ended", Reason(fmt.Errorf("%w: its validity has ended", redlock.ErrLost), redlock.ErrLost))
	assert.Equal(t, "lock lost", Reason(redlock.ErrLost, redlock.ErrLost))
	assert.Equal(t, "another", Reason(errors.New("another"), redlock.ErrLost))
}

// What cannot be reached is to be mended; a quarantine ends by itself.
func TestMastersThatCannotBeReachedComeFirst(t *testing.T) {
	waits := func(why string) error { return fmt.Errorf("%w for another 5s: %s", pool.ErrQuarantined, why) }
	nodes := []redlock.NodeStats{
		{Stats: pool.Stats{Endpoint: "a", State: pool.Up}, Barred: waits("it lost its keys")},
		{Stats: pool.Stats{Endpoint: "b", State: pool.Up}, Barred: waits("or after `redlock init`")},
		{Stats: pool.Stats{Endpoint: "c", State: pool.Down}},
	}
	failure := &redlock.QuorumError{Op: "ready", Need: 2}
	failure.Nodes = []*redlock.NodeError{{Endpoint: "b", Err: nodes[1].Barred}, {Endpoint: "c", Err: errors.New("refused")}}
	assert.Equal(t, "no quorum: 0 of 3 masters vote, 2 are needed\n"+
		"  c: refused\n"+
		"  b: quarantined for another 5s: or after `redlock init`\n"+
		"  a: quarantined for another 5s: it lost its keys (wait that long, or see `redlock doctor`)",
		Explain(failure, nodes...))
	Explain(failure)
	assert.ErrorContains(t, failure.Nodes[0], "b: ", "the error is as it was: others may read it meanwhile")
	assert.Contains(t, Explain(&redlock.QuorumError{Op: "ready", Need: 1}, nodes[:1]...), "no quorum: 0 of 1 master votes, 1 is needed\n")
}

func TestOnlyAQuorumSaysThatAKeyIsNoLock(t *testing.T) {
	lasting, expiring, none := admin.NodeStatus{Value: "v", TTL: -1}, admin.NodeStatus{Value: "v", TTL: time.Second}, admin.NodeStatus{}
	list := admin.NodeStatus{Err: redis.Error("WRONGTYPE Operation against …")}
	away := admin.NodeStatus{Err: errors.New("away"), TTL: -1}
	for _, c := range []struct {
		nodes []admin.NodeStatus
		want  string
	}{
		{nil, ""},
		{[]admin.NodeStatus{none, none, none}, ""},
		{[]admin.NodeStatus{expiring, expiring, expiring}, ""},
		{[]admin.NodeStatus{lasting, expiring, expiring}, ""},
		{[]admin.NodeStatus{lasting, away, none}, ""},
		{[]admin.NodeStatus{lasting, none, lasting}, `the key "k" does not expire: it is no lock; use another name or --key-prefix`},
		{[]admin.NodeStatus{list, list, away}, `the key "k" is no string: it is no lock; use another name or --key-prefix`},
		{[]admin.NodeStatus{list, lasting, away}, `the key "k" does not expire: it is no lock; use another name or --key-prefix`},
	} {
		err := Misnamed("k", &admin.Status{Quorum: 2, Nodes: c.nodes})
		if c.want == "" {
			assert.NoError(t, err, c.nodes)
			continue
		}
		assert.EqualError(t, err, c.want)
		assert.Equal(t, ExitMisnamed, ExitStatus(err))
	}
}

func TestReadableLeavesOutWhereInAScript(t *testing.T) {
	const digest = "febc0542cf9809ade88e7e72066823fa7a351fdf"
	for text, want := range map[string]string{
		"WRONGTYPE Operation against a key holding the wrong kind of value script: " + digest + ", on @user_script:70.": "the key is no string",
		"redis://a: OOM command not allowed script: " + digest + ", on @user_script:7.; redis://b: LOADING":             "redis://a: OOM command not allowed; redis://b: LOADING",
		"a script: of mine": "a script: of mine",
	} {
		assert.Equal(t, want, prose.Readable(text))
	}
}

func TestACommandWritesTextOrJSONAndTakesNoEndpoints(t *testing.T) {
	for _, c := range []struct {
		args   string
		status int
		stdout string
		stderr string
	}{
		{"tell", 0, "it is\n", ""},
		{"tell --json", 0, "{\n  \"is\": true\n}\n", ""},
		{"tell redis://:secret@a:1", ExitUsage, "", "redlock: tell takes no arguments; give the endpoints of masters to --nodes\nSee \"redlock tell --help\".\n"},
	} {
		var output Output
		tell := &cobra.Command{Use: "tell", Args: NoArguments, RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := UntilSignal(cmd)
			defer stop()
			assert.NoError(t, ctx.Err())
			return output.Write(cmd, map[string]bool{"is": true}, func(terminal.Look) []string { return []string{terminal.Red.Of("it is")} })
		}}
		output.Add(tell)
		root := &cobra.Command{Use: "redlock"}
		root.AddCommand(tell)
		var stdout, stderr bytes.Buffer
		assert.Equal(t, c.status, Execute(root, strings.Fields(c.args), &stdout, &stderr), c.args)
		assert.Equal(t, c.stdout, stdout.String(), c.args)
		assert.Equal(t, c.stderr, stderr.String(), c.args)
	}
}
