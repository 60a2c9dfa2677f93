package acceptance_test

import (
	"flag"
	"fmt"
	"runtime"
	"testing"

	"github.com/redquorum/redquorum/internal/cluster"
	"github.com/redquorum/redquorum/internal/search"
)

// TestMain runs more parallel tests at a time than there are processors: most of them wait for time
// to pass. Under the race detector they need the processors.
func TestMain(m *testing.M) {
	flag.Parse()
	parallel := flag.Lookup("test.parallel")
	if parallel.Value.String() == parallel.DefValue && !search.Race {
		if err := flag.Set("test.parallel", fmt.Sprint(2*runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	cluster.Main(m)
}
