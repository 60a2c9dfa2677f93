package wire

import (
	"strconv"
	"strings"
	"time"

	"github.com/redquorum/redquorum/internal/journal"
	"github.com/redquorum/redquorum/internal/ledger"
	"github.com/redquorum/redquorum/internal/pipeline"
)

// Record returns a request that records a term and the value of its lock. [Yes] reads the answer.
func Record(key string, term int64, value string, life time.Duration) pipeline.Request {
	entry := strconv.FormatInt(term, 10) + " " + value
	return pipeline.Request{
		Script: recordScript, Words: pipeline.On([]string{key}, term, entry, life.Milliseconds(), ledger.Kept),
		Key: key, Accept: isInteger, Prove: true,
	}
}

// Recorded returns a request for what a node knows of the leaders of a name: at most so many of the
// newest terms above since. [ReadRecorded] reads the answer.
func Recorded(key string, since int64, most int) pipeline.Request {
	return pipeline.Request{
		Script: recordedScript, Words: pipeline.On([]string{key}, since, most), Accept: isArray, Prove: true,
	}
}

// ReadRecorded reads the answer to [Terms], and reports whether it is well-formed. It skips entries
// that this library did not write.
func ReadRecorded(reply any) (answer ledger.Answer, ok bool) {
	answers, _ := reply.([]any)
	if len(answers) != 3 {
		return answer, false
	}
	value, _ := answers[0].([]byte)
	ttlMillis, _ := answers[1].(int64)
	entries, _ := answers[2].([]any)
	if answer.Value = string(value); answer.Value != "" {
		answer.TTL = spanOf(ttlMillis)
	}
	for _, entry := range entries {
		text, _ := entry.([]byte)
		number, value, _ := strings.Cut(string(text), " ")
		if term, err := strconv.ParseInt(number, 10, 64); err == nil && term > 0 && value != "" {
			answer.Entries = append(answer.Entries, ledger.Entry{Term: term, Value: value})
		}
	}
	return answer, true
}

// LogKey is where a node keeps its part of the log (package journal). The history of a name is in
// two keys that begin like it: runs, and misses.
const LogKey = Reserved + "log"

// missed ends the key of the misses of a name, and names that of the index of a key prefix.
const (
	missed = "#missed"
	names  = "#names"
)

// HasHistory reports whether notes are taken of a key. One that ends as the keys beside histories
// do has none: it would share their bounds.
func HasHistory(key string) bool {
	return len(key) <= journal.MostName && !strings.HasSuffix(key, missed) && !strings.HasSuffix(key, names)
}

// Log returns a request that adds an entry to the log.
func Log(e *journal.Entry) pipeline.Request {
	return pipeline.Request{
		Script: logScript, Words: pipeline.On([]string{LogKey}, e.Encode(), journal.Kept, journal.Life.Milliseconds()),
		Key: LogKey, Accept: isInteger,
	}
}

// LogOf returns a request that adds an entry to the history of its key, which has that prefix.
func LogOf(e *journal.Entry, prefix string) pipeline.Request {
	key := LogKey + ":" + e.Key
	if !e.Run() {
		key += missed
	}
	keys := []string{key, LogKey + ":" + prefix + names}
	if e.AskHolder {
		keys = append(keys, e.Key)
	}
	return pipeline.Request{
		Script: logScript,
		Words:  pipeline.On(keys, e.Encode(), journal.KeptOfName, journal.HistoryLife.Milliseconds(), LogKey+":"+e.Key, missed, journal.MostNames),
		Key:    key, Accept: isInteger,
	}
}

// Logged returns a request for the entries that a node has. [ReadTexts] reads the answer.
func Logged() pipeline.Request { return logged(LogKey) }

// LoggedOf returns a request for the history of a key, and for the log, which may tell of it.
func LoggedOf(key string) pipeline.Request {
	key = LogKey + ":" + key
	return logged(key, key+missed, LogKey)
}

func logged(keys ...string) pipeline.Request {
	return pipeline.Request{Script: loggedScript, Words: pipeline.On(keys, journal.Kept), Key: keys[0], Accept: isArray}
}

// ReadTexts reads a list of texts. What is no text is empty.
func ReadTexts(reply any) []string { return readTexts(reply) }

// ReadForced reads the answer to [Force]: what the node held, and for how long it would have, less
// than 0 if that did not expire. The value is empty if nothing was taken away.
func ReadForced(reply any) (value string, left time.Duration) {
	answers, _ := reply.([]any)
	if len(answers) != 2 {
		return "", 0
	}
	text, _ := answers[0].([]byte)
	millis, _ := answers[1].(int64)
	return string(text), spanOf(millis)
}
