package leasehttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redquorum/redquorum/internal/guard"
)

const (
	// mostBody is enough for the longest name and token with every byte escaped.
	mostBody = 32 << 10

	// usualTTL is that of a request without one: an outage of the masters that is shorter costs
	// nobody its lease.
	usualTTL = duration(30 * time.Second)

	// longestWait is how long a request may wait. Whoever wants to wait longer asks again, and a
	// client that is stuck is gone by then.
	longestWait = time.Hour
)

// duration is a time in the form of Go, as "1m30s".
type duration time.Duration

// UnmarshalJSON takes strings alone: of a number nobody knows the unit.
func (d *duration) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("%s is no duration: give it as \"30s\" or \"1m30s\"", text)
	}
	value, err := time.ParseDuration(s)
	if err != nil || value < 0 {
		return fmt.Errorf("%q is no duration: give it as \"30s\" or \"1m30s\"", s)
	}
	*d = duration(value)
	return nil
}

// wish is the body of a request for a lease.
type wish struct {
	Name  string   `json:"name"`
	TTL   duration `json:"ttl"`
	Wait  duration `json:"wait"`
	Token string   `json:"token"`
	Owner string   `json:"owner"`
	Fence bool     `json:"fence"`
}

func (w *wish) check() error {
	if time.Duration(w.Wait) > longestWait {
		return fmt.Errorf("\"wait\" is %v at most: ask again after that", longestWait)
	}
	return checkTexts(w.Name, w.Token, w.Owner)
}

// known is the body of a request about a lease that was granted. The answer that granted it may be
// sent back as it is.
type known struct {
	Name  string          `json:"name"`
	Token string          `json:"token"`
	TTL   duration        `json:"ttl"`
	Fence json.RawMessage `json:"fence"`
	Valid json.RawMessage `json:"valid_ms"`
}

func (k *known) check() error {
	if k.Token == "" {
		return errors.New(`"token" is missing: the answer that granted the lease has it`)
	}
	return checkTexts(k.Name, k.Token, "")
}

// checkTexts refuses what JSON cannot say. A byte that is no text, or half of a character, would
// arrive as U+FFFD: two names would be one.
func checkTexts(name string, others ...string) error {
	if name == "" {
		return errors.New(`"name" is missing`)
	}
	for _, text := range append(others, name) {
		if strings.ContainsRune(text, utf8.RuneError) {
			return errors.New("a text is not valid UTF-8, or has the character U+FFFD")
		}
	}
	return nil
}

// body is what a request can say.
type body interface{ check() error }

// read reads the body of a request to its end: only then does the server notice that a client is
// gone. It reports false if it has refused.
func read(w http.ResponseWriter, r *http.Request, into body) bool {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); isOfBrowser(r) && (err != nil || kind != "application/json") {
		guard.Error(w, http.StatusUnsupportedMediaType, errors.New("send JSON, with the header Content-Type: application/json"))
		return false
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		guard.Error(w, http.StatusRequestEntityTooLarge, fmt.Errorf("a request has %d bytes at most", mostBody))
		return false
	}
	if err == nil {
		err = decode(text, into)
	}
	if err != nil {
		guard.Error(w, http.StatusBadRequest, err)
		return false
	}
	return true
}

// isOfBrowser reports whether a browser sent a request: then its page must have asked for JSON,
// which no form of another site can. Programs need not say what they send: `curl -d` says that it
// is a form. Every browser names itself so, and those of today say where the page is from, too.
func isOfBrowser(r *http.Request) bool {
	for _, header := range []string{"Origin", "Referer", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Cookie"} {
		if r.Header.Get(header) != "" {
			return true
		}
	}
	return strings.HasPrefix(r.UserAgent(), "Mozilla/")
}

// decode reads one object. A field that it does not know is refused: a "fence" or "wait" that is
// misspelt must not be left out without a word.
func decode(text []byte, into body) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("the body is not the JSON object that it should be: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something behind the JSON object")
	}
	return into.check()
}
