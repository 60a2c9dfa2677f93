package doctor

import (
	"context"

	"github.com/redquorum/redquorum/internal/ask"
	"github.com/redquorum/redquorum/internal/pipeline"
)

// request is a command.
type request struct {
	name string
	args []any
}

// askAll sends all requests at once, and takes the replies in order. It notes what is refused.
func (p *probe) askAll(ctx context.Context, f *facts, requests []request, take func(reply any)) error {
	var sent []ask.Reply
	for _, q := range requests {
		sent = append(sent, p.Send(q.name, q.args...))
	}
	for i, w := range sent {
		reply, err := w.Wait(ctx)
		switch {
		case err == nil:
			take(reply)
		case p.isTrialRefused(f, ask.RefusalOf(err)): // the command itself is allowed
		case !f.refused(requests[i].name, err):
			return err
		}
	}
	return nil
}

// refused reports whether an error means that the server refused a command, and notes it.
func (f *facts) refused(command string, err error) bool {
	refusal := ask.RefusalOf(err)
	if command == "CONFIG" {
		command = "CONFIG GET"
	}
	if refusal != nil && f.denied[command] == nil {
		f.denied[command] = refusal
	}
	return refusal != nil
}

// call sends a command and waits for its reply.
func (p *probe) call(ctx context.Context, name string, args ...any) (any, error) {
	return p.Send(name, args...).Wait(ctx)
}

// run runs a script on one key. A refusal is no error.
func (p *probe) run(ctx context.Context, script *pipeline.Script, key string) (refusal, err error) {
	_, err = p.Run(script, key).Wait(ctx)
	if refusal := ask.RefusalOf(err); refusal != nil {
		return refusal, nil
	}
	return nil, err
}
