package search

import (
	"flag"
	"fmt"
	"runtime"
)

// RunMore makes a TestMain run this many parallel tests at a time for each processor, unless a flag
// says how many: for packages whose tests mostly wait for time to pass. Under the race detector
// they need the processors.
func RunMore(perProcessor int) {
	flag.Parse()
	parallel := flag.Lookup("test.parallel")
	if parallel.Value.String() != parallel.DefValue || Race {
		return
	}
	if err := flag.Set("test.parallel", fmt.Sprint(perProcessor*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
}
