package job

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redquorum/redquorum/clock/clocktest"
)

// lateReader is a stderr that is read only once open is closed.
type lateReader struct {
	open chan struct{}
	text bytes.Buffer
}

func (r *lateReader) Write(p []byte) (int, error) {
	<-r.open
	return r.text.Write(p)
}

func TestOutboxKeepsTheOrderAndCountsWhatItDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clocktest.New()
		reader := &lateReader{open: make(chan struct{})}
		o := NewOutbox(reader, clk, Messages{}.Dropped)
		line := bytes.Repeat([]byte("x"), 1<<10)
		const more = 3
		for i := range outboxRoom/len(line) + more {
			copy(line, fmt.Sprintf("\n%d ", i))
			if n, err := o.Write(line); n != len(line) || err != nil {
				t.Fatalf("message %d: got %d, %v", i, n, err)
			}
		}
		begin := clk.Now()
		o.Flush()
		if waited := clk.Now().Sub(begin); waited != outboxBound {
			t.Errorf("flush took %v, want %v", waited, outboxBound)
		}
		close(reader.open)
		o.Flush()
		text := reader.text.String()
		for i, from := 0, 0; i < outboxRoom/len(line); i++ {
			at := strings.Index(text[from:], fmt.Sprintf("\n%d ", i))
			if at < 0 {
				t.Fatalf("message %d does not follow the one before", i)
			}
			from += at + 1
		}
		if !strings.HasSuffix(text, fmt.Sprintf("redlock: %d messages were dropped: stderr was not read in time\n", more)) {
			t.Errorf("the end does not tell of the dropped: %q", text[max(0, len(text)-100):])
		}
		o.Flush() // nothing is left, so it takes no time
		if now := clk.Now(); now.Sub(begin) >= outboxBound+time.Millisecond {
			t.Errorf("it took %v", now.Sub(begin))
		}
	})
}
