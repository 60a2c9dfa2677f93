package pool_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/pool"
)

func Example() {
	server := miniredis.NewMiniRedis() // embedded, so that the example runs anywhere
	if err := server.Start(); err != nil {
		panic(err)
	}
	defer server.Close()

	// Neither errors nor statistics contain the user or the password of an endpoint.
	node, err := pool.NewNode("redis://"+server.Addr(), pool.WithDialTimeout(10*time.Second))
	if err != nil {
		panic(err) // a bad endpoint or option; nothing was dialed
	}
	defer node.Close()

	// A node dials by itself. A redlock.Locker does not wait for it; this example does.
	for node.State() == pool.Connecting {
		clock.Sleep(context.Background(), node.Clock(), time.Millisecond)
	}
	stats := node.Stats()
	fmt.Println(stats.State, stats.Err)
	fmt.Println("connections:", stats.Connects)

	if err := node.Close(); err != nil {
		panic(err)
	}
	fmt.Println(node.State())
	// Output:
	// up <nil>
	// connections: 1
	// closed
}
