package goredis_test

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/redquorum/redquorum/contrib/goredis"
	"github.com/redquorum/redquorum/redlock"
)

func Example() {
	var masters []*redis.Options // from your configuration
	for _, host := range []string{"a", "b", "c"} {
		masters = append(masters, &redis.Options{Addr: host + ":6379", Password: "p@ss", DB: 1})
	}

	endpoints, opts, err := goredis.Endpoints(masters...)
	if err != nil {
		panic(err)
	}
	locker, err := redlock.New(endpoints, redlock.WithPool(opts...))
	if err != nil {
		panic(err)
	}
	defer locker.Close()
	for _, node := range locker.Stats().Nodes {
		fmt.Println(node.Endpoint) // without the password
	}
	// Output:
	// redis://a:6379/1
	// redis://b:6379/1
	// redis://c:6379/1
}
