package pipeline

import (
	"strconv"
	"strings"
)

// Words is a command, or the keys and the arguments of a script, encoded once for all nodes that
// are asked the same. Requests may share parts of them.
type Words struct {
	text   string
	tail   string
	count  int16  // words
	keys   int16  // how many of them are the keys of a script
	behind uint32 // where in text its arguments begin
}

// maxWords bounds the words of a command. A change of a queue has the most: 10,000 ids.
const maxWords = 1 << 14

// Encode returns words as they go on the wire: strings, byte slices and integers.
func Encode(words ...any) string { return EncodeBefore("", words...) }

// EncodeBefore returns words followed by encoded ones.
func EncodeBefore(rest string, words ...any) string {
	var b strings.Builder
	b.Grow(size(words) + len(rest))
	for _, word := range words {
		appendWord(&b, word)
	}
	b.WriteString(rest)
	return b.String()
}

// Parts returns a command of two parts that [Encode] encoded, and has so many words.
func Parts(text, tail string, words int) Words {
	if words > maxWords {
		panic("pipeline: too many words")
	}
	return Words{text: text, tail: tail, count: int16(words)}
}

// KeyParts returns what [On] returns for one key, of two parts that [Encode] encoded. They have so
// many words; the first is the key, and takes so many bytes of text.
func KeyParts(text, tail string, words, key int) Words {
	w := Parts(text, tail, words)
	w.keys, w.behind = 1, uint32(key)
	return w
}

// Command returns a command. Its words are strings, byte slices and integers.
func Command(words ...any) Words { return Parts(Encode(words...), "", len(words)) }

// On returns the keys and the arguments of a call of a script. The arguments are strings, byte
// slices and integers.
func On(keys []string, args ...any) Words {
	var b strings.Builder
	length := size(args)
	for _, key := range keys {
		length += bulkSize(len(key))
	}
	b.Grow(length)
	for _, key := range keys {
		appendBulk(&b, key)
	}
	behind := b.Len()
	for _, arg := range args {
		appendWord(&b, arg)
	}
	w := Parts(b.String(), "", len(keys)+len(args))
	w.keys, w.behind = int16(len(keys)), uint32(behind)
	return w
}

// Pairing builds the keys and the arguments of a script that has two arguments for each key.
type Pairing struct {
	keys, args strings.Builder
	n          int
}

// Grow makes room for this many keys of a usual length.
func (p *Pairing) Grow(keys int) {
	p.keys.Grow(keys * typicalSize)
	p.args.Grow(keys * 2 * typicalSize)
}

// typicalSize is the size of a usual key, value or number.
const typicalSize = 40

// Add adds a key with its arguments.
func (p *Pairing) Add(key, text string, number int64) {
	appendBulk(&p.keys, key)
	appendBulk(&p.args, text)
	appendInteger(&p.args, number)
	p.n++
}

// AddTexts adds a key with two arguments that are texts.
func (p *Pairing) AddTexts(key, first, second string) {
	appendBulk(&p.keys, key)
	appendBulk(&p.args, first)
	appendBulk(&p.args, second)
	p.n++
}

// Len returns how many keys there are.
func (p *Pairing) Len() int { return p.n }

// Words returns the words.
func (p *Pairing) Words() Words {
	w := Parts(p.keys.String()+p.args.String(), "", 3*p.n)
	w.keys, w.behind = int16(p.n), uint32(p.keys.Len())
	return w
}

// Keys returns the keys of a call of a script.
func (w *Words) Keys() []string {
	keys := make([]string, w.keys)
	rest := w.text
	for i := range keys {
		keys[i], rest = NextWord(rest)
	}
	return keys
}

// name returns the name of a command.
func (w *Words) name() string {
	name, _ := NextWord(w.text)
	return name
}

// NextWord returns the first word of an encoded text, and what follows it.
func NextWord(text string) (word, rest string) {
	length, body, _ := strings.Cut(text[1:], crlf)
	n, _ := strconv.Atoi(length) //nolint:errcheck // we wrote it
	return body[:n], body[n+len(crlf):]
}

const crlf = "\r\n"

// bulkSize returns the size of a word of this length.
func bulkSize(length int) int {
	return 1 + digits(int64(length)) + len(crlf) + length + len(crlf)
}

func digits(n int64) int {
	if 0 <= n && n < 100 {
		return 1 + min(int(n)/10, 1)
	}
	var text [20]byte
	return len(strconv.AppendInt(text[:0], n, 10))
}

func size(words []any) (bytes int) {
	for _, word := range words {
		switch word := word.(type) {
		case string:
			bytes += bulkSize(len(word))
		case []byte:
			bytes += bulkSize(len(word))
		case int:
			bytes += bulkSize(digits(int64(word)))
		case int64:
			bytes += bulkSize(digits(word))
		}
	}
	return bytes
}

func appendWord(to *strings.Builder, word any) {
	switch word := word.(type) {
	case string:
		appendBulk(to, word)
	case []byte:
		appendLine(to, '$', len(word))
		to.Write(word)
		to.WriteString(crlf)
	case int:
		appendInteger(to, int64(word))
	case int64:
		appendInteger(to, word)
	default:
		panic("pipeline: a word is a string, a byte slice or an integer")
	}
}

func appendBulk(to *strings.Builder, word string) {
	appendLine(to, '$', len(word))
	to.WriteString(word)
	to.WriteString(crlf)
}

func appendLine(to *strings.Builder, kind byte, n int) {
	var text [20]byte
	to.WriteByte(kind)
	to.Write(strconv.AppendInt(text[:0], int64(n), 10))
	to.WriteString(crlf)
}

func appendInteger(to *strings.Builder, n int64) {
	var text [20]byte
	number := strconv.AppendInt(text[:0], n, 10)
	appendLine(to, '$', len(number))
	to.Write(number)
	to.WriteString(crlf)
}
