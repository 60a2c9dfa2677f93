package versus

import (
	"flag"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/bench/contention"
	"github.com/redquorum/redquorum/bench/versus/figures"
)

var scaleFile = flag.String("scale", "", "the file that TestScale writes; without it, TestScale measures too little to be of use")

// scalePlan is the size of TestScale.
type scalePlan struct {
	held   []holdPlan
	crowds []contention.Scenario // without their Mutex and Servers
}

func fullScale() *scalePlan {
	const million, names, waiters = 1_000_000, 1000, 10_000
	crowd := func(processes int) contention.Scenario {
		return contention.Scenario{
			Names: names, Processes: processes, Goroutines: waiters / processes, TTL: 30 * time.Second,
			WarmUp: 5 * time.Second, Window: 10 * time.Second,
		}
	}
	return &scalePlan{
		held: []holdPlan{
			{million, time.Minute, 25 * time.Second, true},
			{million, 2 * time.Minute, 45 * time.Second, true},
		},
		crowds: []contention.Scenario{crowd(1), crowd(10)},
	}
}

func smallScale() *scalePlan {
	return &scalePlan{
		held: []holdPlan{{100, 30 * time.Second, 100 * time.Millisecond, true}},
		crowds: []contention.Scenario{{
			Names: 2, Processes: 2, Goroutines: 4, TTL: 10 * time.Second, WarmUp: 50 * time.Millisecond, Window: 300 * time.Millisecond,
		}},
	}
}

// TestScale measures what is far more than most programs have: how many locks one process can hold,
// and what a crowd of waiters costs. It asserts no figure: it fails when a lock fails, or when two
// held a name at once.
//
//	go test -count=1 -timeout 30m -run 'TestScale$' -v . -scale scale.json
//
// Without -scale, it does everything at a size that takes a moment.
func TestScale(t *testing.T) {
	path, p := *scaleFile, fullScale()
	if path == "" {
		path, p = filepath.Join(t.TempDir(), "scale.json"), smallScale()
	}
	data := figures.Data{Environment: environment(t)}
	for _, e := range []struct {
		name    string
		measure func(*testing.T, *scalePlan) figures.Experiment
	}{{figures.Held, measureHeld}, {figures.Crowds, measureCrowds}} {
		t.Run(e.name, func(t *testing.T) {
			if !contention.Supported {
				t.Skip("processes share no clock here")
			}
			experiment := e.measure(t, p)
			experiment.Name = e.name
			data.Experiments = append(data.Experiments, experiment)
			requireRows(t, &experiment)
		})
	}
	if !t.Failed() {
		require.NoError(t, data.Write(path))
	}
}

// measureHeld has servers of their own for each TTL, because the first client's maximum stays with
// them.
func measureHeld(t *testing.T, p *scalePlan) figures.Experiment {
	t.Helper()
	e := figures.Experiment{Setup: "five servers, beside 50 other locks a second at most"}
	for _, held := range p.held {
		t.Run(fmt.Sprint(held.locks, " for ", held.ttl), func(t *testing.T) {
			h := hold(t, startServers(t), &held)
			e.Rows = append(e.Rows, holdingRow(held.locks, held.ttl.String(), []holding{h}, scaleNames))
		})
	}
	return e
}

func measureCrowds(t *testing.T, p *scalePlan) figures.Experiment {
	t.Helper()
	e := figures.Experiment{}
	for _, s := range p.crowds {
		s.Servers = startServers(t)
		e.Setup = fmt.Sprintf("five servers, %d names, samples of %v after %v", s.Names, s.Window, s.WarmUp)
		before, err := serverCPU(s.Servers)
		require.NoError(t, err)
		for _, row := range contendInTurns(t, []string{"redquorum"}, 1, s) {
			row.State, row.Size = fmt.Sprint(s.Processes), s.Processes*s.Goroutines
			e.Rows = append(e.Rows, row)
		}
		after, err := serverCPU(s.Servers)
		require.NoError(t, err)
		t.Logf("%d processes: the servers had %.2f cores", s.Processes, (after-before).Seconds()/(s.WarmUp+s.Window).Seconds())
	}
	return e
}
