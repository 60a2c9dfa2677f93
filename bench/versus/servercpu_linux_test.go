package versus

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// serverCPUKnown is false on a kernel without scheduler statistics.
var serverCPUKnown = func() bool {
	_, err := os.Stat("/proc/self/schedstat")
	return err == nil
}()

// serverCPU returns the CPU time of the servers together, in user and kernel mode, over all of
// their threads: /proc/PID/schedstat has only the first thread's. It is exact to the nanosecond
// while they are idle; a thread that runs may be a clock tick (1 to 10 ms) ahead.
func serverCPU(servers []*redistest.Server) (sum time.Duration, err error) {
	for _, server := range servers {
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", server.Pid()))
		if err == nil && len(files) == 0 {
			err = fmt.Errorf("%s: no such process: %d", server.Addr(), server.Pid())
		}
		if err != nil {
			return 0, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return 0, err
			}
			var ran time.Duration // running, in nanoseconds: the first of three numbers
			if _, err := fmt.Sscan(string(text), &ran); err != nil {
				return 0, fmt.Errorf("%s: %w", file, err)
			}
			sum += ran
		}
	}
	return sum, nil
}

func TestServerThatWorksUsesCPU(t *testing.T) {
	if !serverCPUKnown {
		t.Skip("this kernel has no scheduler statistics")
	}
	servers := redistest.Start(t, 2)
	before, err := serverCPU(servers)
	require.NoError(t, err)
	// The loop takes the second server milliseconds, which only a sum over both shows.
	_, err = servers[1].Do("EVAL", "local n = 0 for i = 1, 1e6 do n = n + i end return n", 0)
	require.NoError(t, err)
	after, err := serverCPU(servers)
	require.NoError(t, err)
	assert.Greater(t, after, before)
	require.NoError(t, servers[0].Kill())
	_, err = serverCPU(servers)
	assert.Error(t, err, "of a dead server")
}
