package demo

import (
	"fmt"
	"io"
	"sync"
)

// output is what the demo writes to. It keeps the first error, so that callers of print need not
// check.
type output struct {
	mu  sync.Mutex // guards the fields below; held over a write so that lines do not mix
	w   io.Writer
	err error
}

func (o *output) print(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return
	}
	if _, err := io.WriteString(o.w, text); err != nil {
		o.err = fmt.Errorf("write output: %w", err)
	}
}

func (o *output) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}
