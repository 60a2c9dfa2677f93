// Command redlock works with failover-safe locks over independent Redis masters, from a shell. See `redlock help`.
package main

import "os"

func main() {
	os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr))
}
