package pipeline_test

import (
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/redquorum/redquorum/clock"
	"github.com/redquorum/redquorum/internal/pipeline"
)

// printer is a Sink that receives how a call ended.
type printer chan string

func (p printer) Complete(_ int, reply any, err error) { p <- fmt.Sprint(reply, " ", err) }

func ExampleNode_Do() {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		panic(err)
	}
	defer server.Close()
	node, err := pipeline.NewNode(server.Addr())
	if err != nil {
		panic(err)
	}
	defer node.Close()

	done := make(printer, 1)
	node.Do(pipeline.Call{Request: &pipeline.Request{
		Words:    pipeline.Command("SET", "greeting", "hello"),
		Deadline: clock.System().Now().Add(5 * time.Second), Sink: done,
	}})
	fmt.Println(<-done)
	// Output: OK <nil>
}
