package pipeline

import (
	"bytes"
	"strconv"
)

// Words is a command, or the keys and the arguments of a script, encoded once for all nodes that
// are asked the same. Nobody changes it afterwards.
type Words struct {
	text  []byte // a command: a RESP array; of a script: only the bulk strings
	count int    // of the bulk strings
	keys  int    // how many of them are the keys of a script
	args  int    // where in text the arguments of a script begin
}

// Command returns a command. Its words are strings, byte slices and integers.
func Command(words ...any) Words {
	return Words{text: appendWords(appendArray(make([]byte, 0, arrayRoom+room(words)), len(words)), words), count: len(words)}
}

// On returns the keys and the arguments of a call of a script. The arguments are strings, byte
// slices and integers.
func On(keys []string, args ...any) Words {
	size := room(args)
	for _, key := range keys {
		size += len(key) + bulkRoom
	}
	text := make([]byte, 0, size)
	for _, key := range keys {
		text = appendBulk(text, key)
	}
	w := Words{count: len(keys) + len(args), keys: len(keys), args: len(text)}
	w.text = appendWords(text, args)
	return w
}

// Pairing builds the keys and the arguments of a script that has two arguments for each key.
type Pairing struct {
	keys, args []byte
	n          int
}

// NewPairing returns a Pairing with room for this many keys.
func NewPairing(keys int) Pairing {
	return Pairing{keys: make([]byte, 0, keys*typicalWord), args: make([]byte, 0, keys*2*typicalWord)}
}

// typicalWord is the room for a key, a value or a number.
const typicalWord = 40

// Add adds a key with its arguments.
func (p *Pairing) Add(key, text string, number int64) {
	p.keys = appendBulk(p.keys, key)
	p.args = appendInteger(appendBulk(p.args, text), number)
	p.n++
}

// Len returns how many keys there are.
func (p *Pairing) Len() int { return p.n }

// Words returns the words. Nothing may be added afterwards.
func (p *Pairing) Words() Words {
	w := Words{count: 3 * p.n, keys: p.n, args: len(p.keys)}
	w.text = append(p.keys, p.args...)
	return w
}

// Keys returns the keys of a call of a script.
func (w *Words) Keys() []string {
	keys := make([]string, w.keys)
	rest := w.text
	for i := range keys {
		keys[i], rest = nextWord(rest)
	}
	return keys
}

// first returns the first word, which is the name of a command.
func (w *Words) first() string {
	name, _ := nextWord(w.text)
	return name
}

// nextWord returns the first bulk string of a text that we wrote, and what follows it.
func nextWord(text []byte) (word string, rest []byte) {
	length, body, _ := bytes.Cut(text[bytes.IndexByte(text, '$')+1:], crlf)
	n, _ := strconv.Atoi(string(length)) //nolint:errcheck // we wrote it
	return string(body[:n]), body[n+len(crlf):]
}

var crlf = []byte("\r\n")

// The most that RESP adds to a word, and to a list of words, of less than 10^9 bytes.
const (
	bulkRoom    = len("$999999999\r\n\r\n")
	arrayRoom   = len("*999999999\r\n")
	integerRoom = len("$20\r\n-9223372036854775808\r\n")
)

// room returns at least as many bytes as the words take, and little more for short ones.
func room(words []any) (size int) {
	for _, word := range words {
		switch word := word.(type) {
		case string:
			size += len(word) + bulkRoom
		case []byte:
			size += len(word) + bulkRoom
		default:
			size += integerRoom
		}
	}
	return size
}

func appendWords(to []byte, words []any) []byte {
	for _, word := range words {
		switch word := word.(type) {
		case string:
			to = appendBulk(to, word)
		case []byte:
			to = appendBulk(to, word)
		case int:
			to = appendInteger(to, int64(word))
		case int64:
			to = appendInteger(to, word)
		default:
			panic("pipeline: a word is a string, a byte slice or an integer")
		}
	}
	return to
}

func appendArray(to []byte, words int) []byte {
	return append(strconv.AppendInt(append(to, '*'), int64(words), 10), crlf...)
}

func appendBulk[text string | []byte](to []byte, word text) []byte {
	to = append(strconv.AppendInt(append(to, '$'), int64(len(word)), 10), crlf...)
	return append(append(to, word...), crlf...)
}

func appendInteger(to []byte, n int64) []byte {
	var digits [20]byte
	return appendBulk(to, strconv.AppendInt(digits[:0], n, 10))
}
