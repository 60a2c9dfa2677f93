package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/ledger"
)

func TestANodeTellsTheNewestTermsAboveOne(t *testing.T) {
	s := newScriptServer(t)
	record := func(number int64, value string) {
		reply, err := s.run([]string{"a"}, []any{number, inWords(number) + " " + value, 60000, 3}, recordSource)
		require.NoError(t, err)
		assert.Equal(t, int64(1), reply)
	}
	for number := range int64(5) {
		record(number+1, "value|with spaces")
	}
	record(5, "value|with spaces") // again
	s.do("SET", "a", "value|with spaces", "PX", 60000)
	entry := func(term int64) ledger.Entry { return ledger.Entry{Term: term, Value: "value|with spaces"} }
	for _, c := range []struct {
		since, most int
		want        []ledger.Entry
	}{
		{0, 8, []ledger.Entry{entry(3), entry(4), entry(5)}},
		{4, 8, []ledger.Entry{entry(5)}},
		{0, 1, []ledger.Entry{entry(5)}},
		{5, 8, nil},
	} {
		reply, err := s.run([]string{"a"}, []any{c.since, c.most}, recordedSource)
		require.NoError(t, err)
		answer, ok := ReadRecorded(reply)
		require.True(t, ok)
		assert.Equal(t, c.want, answer.Entries)
		assert.Equal(t, "value|with spaces", answer.Value)
		assert.True(t, answer.TTL > 50*time.Second && answer.TTL <= time.Minute, "%v", answer.TTL)
	}
	assert.Contains(t, inWords(s.do("PTTL", "redquorum:terms:a")), "60 s")
}

func TestWhatIsNoRecordIsSkipped(t *testing.T) {
	answer, ok := ReadRecorded([]any{nil, int64(-2), []any{[]byte("no"), []byte("7"), []byte("-1 x"), int64(3), []byte("8 x")}})
	require.True(t, ok)
	assert.Equal(t, ledger.Answer{Entries: []ledger.Entry{{Term: 8, Value: "x"}}}, answer)
	_, ok = ReadRecorded([]any{nil})
	assert.False(t, ok)
}
