package redlock_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gomodule/redigo/redis"
)

// monitors subscribes to all channels of all nodes while waiting processes are killed. All that
// those leave behind is their tickets.
func monitors(u *users, rng *rand.Rand) {
	for _, server := range u.servers {
		network, err := server.Dial(u.base)
		if err != nil {
			u.judge.fail("no monitor: %v", err)
			return
		}
		conn := redis.NewConn(network, 0, 0)
		if _, err := conn.Do("PSUBSCRIBE", "*"); err != nil {
			u.judge.fail("no monitor: %v", err)
			return
		}
		defer conn.Close()
		go func() { // until the connection is closed
			for err := error(nil); err == nil; {
				_, err = conn.Receive()
			}
		}()
	}
	for n := 0; u.goesOn(); n++ {
		name := u.names[rng.IntN(len(u.names))]
		for i := range u.servers {
			for k := range 5 {
				member := fmt.Sprintf("killed%d.%d:%s", n, k, "AAAAAAAAAAAAAAAAAAAAAAAAAA")
				u.do(i, "ZADD", "redquorum:wait:"+name, 1, member)
			}
			u.do(i, "PEXPIRE", "redquorum:wait:"+name, time.Minute.Milliseconds())
			u.do(i, "SET", "redquorum:waits:"+name, "", "PX", 1000)
		}
		u.pause(500 * time.Millisecond)
	}
}
