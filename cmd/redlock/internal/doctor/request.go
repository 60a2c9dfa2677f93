package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/redquorum/redquorum/internal/pipeline"
)

// request is a command.
type request struct {
	name string
	args []any
}

// askAll sends all requests at once, and takes the replies in order. It notes what is refused.
func (p *probe) askAll(ctx context.Context, f *facts, requests []request, take func(reply any)) error {
	var sent []pending
	for _, q := range requests {
		sent = append(sent, p.send(q.name, q.args...))
	}
	for i, w := range sent {
		reply, err := w.wait(ctx)
		switch {
		case err == nil:
			take(reply)
		case !f.refused(requests[i].name, err):
			return err
		}
	}
	return nil
}

// refused reports whether an error means that the server refused a command, and notes it.
func (f *facts) refused(command string, err error) bool {
	refusal := refusalOf(err)
	if command == "CONFIG" {
		command = "CONFIG GET"
	}
	if refusal != nil && f.denied[command] == nil {
		f.denied[command] = refusal
	}
	return refusal != nil
}

// refusalOf returns the server's error if it refused a command; nil for all other errors.
func refusalOf(err error) error {
	if call, ok := errors.AsType[*pipeline.CallError](err); ok && call.Fate == pipeline.Refused {
		return call.Err
	}
	return nil
}

func text(reply any) string {
	bulk, _ := reply.([]byte)
	return string(bulk)
}

// call sends a command and waits for its reply.
func (p *probe) call(ctx context.Context, name string, args ...any) (any, error) {
	return p.send(name, args...).wait(ctx)
}

// run runs a script on one key. A refusal is no error.
func (p *probe) run(ctx context.Context, script *pipeline.Script, key string) (refusal, err error) {
	_, err = p.do(&pipeline.Request{Script: script, Words: pipeline.On([]string{key})}).wait(ctx)
	if refusal := refusalOf(err); refusal != nil {
		return refusal, nil
	}
	return nil, err
}

func (p *probe) send(name string, args ...any) pending {
	return p.do(&pipeline.Request{Words: pipeline.Command(append([]any{name}, args...)...)})
}

func (p *probe) do(r *pipeline.Request) pending {
	w := make(pending, 1)
	r.Deadline, r.Sink = p.clock.Now().Add(answerBound), w
	p.node.Do(pipeline.Call{Request: r})
	return w
}

// pending receives one reply; it has room for it.
type pending chan answer

type answer struct {
	reply any
	err   error
}

func (w pending) Complete(_ int, reply any, err error) { w <- answer{reply, err} }

func (w pending) wait(ctx context.Context) (any, error) {
	select {
	case a := <-w:
		return a.reply, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("no answer within %v", bound)
	}
}
