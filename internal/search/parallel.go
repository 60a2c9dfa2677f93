package search

import (
	"flag"
	"fmt"
	"runtime"
)

// RunMore makes a TestMain run more parallel tests at a time than there are processors, unless a
// flag says how many: for packages whose tests mostly wait for time to pass. Under the race
// detector they need the processors.
func RunMore() {
	flag.Parse()
	parallel := flag.Lookup("test.parallel")
	if parallel.Value.String() != parallel.DefValue || Race {
		return
	}
	if err := flag.Set("test.parallel", fmt.Sprint(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
}
