package cluster

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Main runs the tests of a package. It fails the package if a goroutine of the library remains:
// every test closes its Lockers.
func Main(m *testing.M) {
	code := m.Run()
	if left := AwaitNoGoroutines(10 * time.Second); left != "" && code == 0 {
		fmt.Fprintf(os.Stderr, "goroutines of the library are left:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// AwaitNoGoroutines waits until nothing of the library runs. It returns what still does when the
// limit has passed.
func AwaitNoGoroutines(limit time.Duration) (left string) {
	for deadline := time.Now().Add(limit); ; time.Sleep(5 * time.Millisecond) {
		if left = libraryGoroutines(); left == "" || time.Now().After(deadline) {
			return left
		}
	}
}

// libraryGoroutines returns the stacks of the goroutines that run a function of the library, or
// were started by one.
func libraryGoroutines() string {
	buf := make([]byte, 16<<20) // some thousand stacks; more are left out
	buf = buf[:runtime.Stack(buf, true)]
	var left []string
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		for _, library := range []string{"redlock", "election", "pool", "internal/pipeline"} {
			if strings.Contains(stack, "redquorum/redquorum/"+library+".") {
				left = append(left, stack)
				break
			}
		}
	}
	return strings.Join(left, "\n\n")
}
