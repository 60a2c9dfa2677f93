package history_test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/history"
)

func ExampleWriteEDN() {
	var r history.Recorder
	first := r.Invoke(1000, history.Operation{Function: history.Acquire, Name: "a"})
	second := r.Invoke(1500, history.Operation{Function: history.Acquire, Name: "a"})
	first.Return(2000, history.OK, 17)
	first.Release(3000) // nobody knows whether it took effect
	second.Return(4000, history.OK, 18)
	if err := history.WriteEDN(os.Stdout, r.History()); err != nil {
		fmt.Println(err)
	}
	fmt.Println(history.Check(r.History(), history.FencedMutex) == history.Legal)
	// Output:
	// {:index 0, :time 1000, :process 0, :type :invoke, :f :acquire, :value nil, :name "a"}
	// {:index 1, :time 1500, :process 1, :type :invoke, :f :acquire, :value nil, :name "a"}
	// {:index 2, :time 2000, :process 0, :type :ok, :f :acquire, :value 17, :name "a"}
	// {:index 3, :time 3000, :process 0, :type :invoke, :f :release, :value nil, :name "a"}
	// {:index 4, :time 4000, :process 1, :type :ok, :f :acquire, :value 18, :name "a"}
	// true
}

// keyword is an EDN keyword, without its colon.
type keyword string

// reader reads the part of EDN that a history needs: maps, keywords, integers, strings, nil and
// booleans.
type reader struct{ text string }

var errEDN = errors.New("no EDN")

func (r *reader) skip() { r.text = strings.TrimLeft(r.text, " ,\n") }

// value reads the next value.
func (r *reader) value() (any, error) {
	r.skip()
	switch {
	case r.text == "":
		return nil, errEDN
	case r.text[0] == '{':
		r.text = r.text[1:]
		return r.entries()
	case r.text[0] == '"':
		return r.quoted()
	}
	end := strings.IndexAny(r.text, " ,\n{}\"")
	if end < 0 {
		end = len(r.text)
	}
	word := r.text[:end]
	r.text = r.text[end:]
	switch {
	case word == "nil":
		return nil, nil //nolint:nilnil // that is its value
	case word == "true", word == "false":
		return word == "true", nil
	case strings.HasPrefix(word, ":") && len(word) > 1:
		return keyword(word[1:]), nil
	}
	return strconv.ParseInt(word, 10, 64)
}

// entries reads a map behind its brace.
func (r *reader) entries() (any, error) {
	all := map[keyword]any{}
	for {
		if r.skip(); strings.HasPrefix(r.text, "}") {
			r.text = r.text[1:]
			return all, nil
		}
		key, err := r.value()
		if err != nil {
			return nil, err
		}
		name, ok := key.(keyword)
		if !ok {
			return nil, fmt.Errorf("%w: the key %v", errEDN, key)
		}
		if _, twice := all[name]; twice {
			return nil, fmt.Errorf("%w: two values of %s", errEDN, name)
		}
		if all[name], err = r.value(); err != nil {
			return nil, err
		}
	}
}

// quoted reads a string.
func (r *reader) quoted() (any, error) {
	var s strings.Builder
	for rest := r.text[1:]; rest != ""; rest = rest[1:] {
		switch {
		case rest[0] == '"':
			r.text = rest[1:]
			return s.String(), nil
		case rest[0] != '\\':
			s.WriteByte(rest[0])
		case strings.HasPrefix(rest, `\u`) && len(rest) > 6:
			code, err := strconv.ParseUint(rest[2:6], 16, 16)
			if err != nil {
				return nil, err
			}
			s.WriteRune(rune(code))
			rest = rest[5:]
		case strings.HasPrefix(rest, `\"`), strings.HasPrefix(rest, `\\`):
			s.WriteByte(rest[1])
			rest = rest[1:]
		default:
			return nil, errEDN
		}
	}
	return nil, errEDN
}

// readEDN reads all values of a text.
func readEDN(t *testing.T, text string) (all []map[keyword]any) {
	t.Helper()
	r := &reader{text}
	for r.skip(); r.text != ""; r.skip() {
		value, err := r.value()
		require.NoError(t, err, text)
		entry, ok := value.(map[keyword]any)
		require.True(t, ok, "%v", value)
		all = append(all, entry)
	}
	return all
}

func TestEDNReadsBackAsWritten(t *testing.T) {
	names := []string{"a", "Queue:ä\"\\ \n\x00 :x }", "#{1}"}
	var r history.Recorder
	for i, name := range names {
		call := r.Invoke(10, history.Operation{Function: history.AcquireShared, Name: name, Permits: 2 * i})
		call.Return(20, history.OK, int64(i))
		call.Release(30).Return(40, history.Info, 0)
		r.Invoke(50, history.Operation{Function: history.Acquire, Name: name, Forced: true}).Return(60, history.Fail, 0)
		r.Invoke(70, history.Operation{Function: history.Enqueue, Name: name, Task: name}).Return(80, history.OK, 0)
	}
	events := r.History()
	var text strings.Builder
	require.NoError(t, history.WriteEDN(&text, events))
	lines := readEDN(t, text.String())
	assert.Equal(t, len(events), strings.Count(text.String(), "\n"), "one line each")
	require.Len(t, lines, len(events))
	for i, e := range events {
		want := map[keyword]any{
			"index": int64(i), "time": int64(e.Time), "process": int64(e.Process), "type": keyword(e.Type),
			"f": keyword(e.Function), "name": e.Name, "value": nil,
		}
		if e.Token > 0 {
			want["value"] = e.Token
		}
		if e.Task != "" {
			want["value"] = e.Task
		}
		if e.Permits > 0 {
			want["permits"] = int64(e.Permits)
		}
		if e.Forced {
			want["forced"] = true
		}
		assert.Equal(t, want, lines[i])
	}
}

func TestANameThatIsNoTextIsNotWritten(t *testing.T) {
	var r history.Recorder
	r.Invoke(0, history.Operation{Function: history.Acquire, Name: "\xff"})
	assert.ErrorContains(t, history.WriteEDN(new(strings.Builder), r.History()), `"\xff"`)
}

// failingWriter takes nothing.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestAnErrorOfTheWriterIsReturned(t *testing.T) {
	var r history.Recorder
	r.Invoke(0, history.Operation{Function: history.Acquire, Name: "a"})
	assert.ErrorIs(t, history.WriteEDN(failingWriter{}, r.History()), os.ErrClosed)
}

// A process does one thing at a time, and nothing after something whose outcome is unknown. Without
// that, Jepsen's checkers refuse a history.
func TestAProcessDoesOneThingAtATime(t *testing.T) {
	var r history.Recorder
	kept := r.Invoke(1, history.Operation{Function: history.Acquire, Name: "a"})
	kept.Return(5, history.OK, 0)
	kept.Release(8).Return(9, history.OK, 0)
	taken := r.Invoke(2, history.Operation{Function: history.Acquire, Name: "a"})
	taken.Return(9, history.OK, 0)
	taken.Release(7)
	moment := r.Invoke(9, history.Operation{Function: history.Acquire, Name: "a"})
	moment.Return(9, history.OK, 0)
	moment.Release(9).Return(9, history.Info, 0)
	busy, crashed := map[int]bool{}, map[int]bool{}
	for _, e := range r.History() {
		assert.False(t, crashed[e.Process], "%+v", e)
		assert.Equal(t, e.Type != history.Invoke, busy[e.Process], "%+v", e)
		busy[e.Process], crashed[e.Process] = e.Type == history.Invoke, e.Type == history.Info
	}
}
