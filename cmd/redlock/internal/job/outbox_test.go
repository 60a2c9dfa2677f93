package job

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
			_, err := o.Write(line)
			require.NoError(t, err, i)
		}
		begin := clk.Now()
		o.Flush()
		assert.Equal(t, outboxBound, clk.Now().Sub(begin), "it waits for the reader")
		close(reader.open)
		o.Flush()
		text := reader.text.String()
		for i, from := 0, 0; i < outboxRoom/len(line); i++ {
			at := strings.Index(text[from:], fmt.Sprintf("\n%d ", i))
			require.GreaterOrEqual(t, at, 0, "message %d does not follow the one before", i)
			from += at + 1
		}
		assert.Regexp(t, fmt.Sprintf("redlock: %d messages were dropped: stderr was not read in time\n$", more), text[len(text)-100:])
		o.Flush() // nothing is left, so it takes no time
		assert.Equal(t, outboxBound, clk.Now().Sub(begin))
	})
}
