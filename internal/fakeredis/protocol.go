package fakeredis

import (
	"bytes"
	"strconv"
	"strings"
)

const (
	maxArgs   = 1 << 20   // arguments of a command, as in Redis
	maxBulk   = 512 << 20 // bytes of an argument (proto-max-bulk-len)
	maxInline = 64 << 10  // bytes of a line (PROTO_INLINE_MAX_SIZE)
)

// protocolError is what the server answers before it closes a connection that does not speak RESP.
type protocolError string

func (e protocolError) Error() string { return "Protocol error: " + string(e) }

// parseRequest reads the first command in data. It returns the command's arguments (none for an
// empty line) and size, or size 0 while the command is incomplete.
func parseRequest(data []byte) (args []string, size int, err error) {
	line, size, err := parseLine(data, 0)
	if size == 0 || err != nil {
		return nil, 0, err
	}
	if len(line) == 0 || line[0] != '*' {
		return strings.Fields(string(line)), size, nil
	}
	count, err := strconv.Atoi(string(line[1:]))
	if err != nil || count > maxArgs {
		return nil, 0, protocolError("invalid multibulk length")
	}
	if count <= 0 {
		return nil, size, nil
	}
	var few [8][2]int // where the arguments are; most commands need no allocation
	spans := few[:0]
	for range count {
		from, to, err := parseBulk(data, size)
		if to == 0 || err != nil {
			return nil, 0, err
		}
		spans = append(spans, [2]int{from, to})
		size = to + len("\r\n")
	}
	args = make([]string, count)
	if size > 1<<10 { // most of it is probably a script that is known
		for i, span := range spans {
			args[i] = textOf(data[span[0]:span[1]])
		}
		return args, size, nil
	}
	text := string(data[:size]) // one allocation; the arguments are parts of it
	for i, span := range spans {
		args[i] = text[span[0]:span[1]]
	}
	return args, size, nil
}

// parseBulk reads an argument that begins at start; to is 0 while it is incomplete.
func parseBulk(data []byte, start int) (from, to int, err error) {
	line, from, err := parseLine(data, start)
	if from == 0 || err != nil {
		return 0, 0, err
	}
	if len(line) == 0 || line[0] != '$' {
		return 0, 0, protocolError("expected '$'")
	}
	length, err := strconv.Atoi(string(line[1:]))
	if err != nil || length < 0 || length > maxBulk {
		return 0, 0, protocolError("invalid bulk length")
	}
	to = from + length
	if to+len("\r\n") > len(data) {
		return 0, 0, nil
	}
	return from, to, nil
}

// parseLine returns the line that begins at start and where the next one begins, or 0 while the
// line has no end.
func parseLine(data []byte, start int) (line []byte, next int, err error) {
	end := bytes.IndexByte(data[start:], '\n')
	if end < 0 {
		if len(data)-start > maxInline {
			return nil, 0, protocolError("too big inline request")
		}
		return nil, 0, nil
	}
	line = data[start : start+end]
	return bytes.TrimSuffix(line, []byte("\r")), start + end + 1, nil
}

// reply is an answer of the server before it is written as RESP or passed to a script.
type reply struct {
	kind   replyKind
	text   string  // of a status, an error, a bulk
	number int64   // of an integer
	items  []reply // of an array, and of several
}

type replyKind byte

const (
	kindStatus  replyKind = iota // +text
	kindError                    // -text
	kindInteger                  // :number
	kindBulk                     // $ text
	kindNil                      // $-1
	kindArray                    // * items
	kindSeveral                  // items one after another, as in the answer to SUBSCRIBE
)

var (
	replyOK    = reply{kind: kindStatus, text: "OK"}
	replyNil   = reply{kind: kindNil}
	wrongType  = failure("WRONGTYPE Operation against a key holding the wrong kind of value")
	notInteger = failure("ERR value is not an integer or out of range")
	notFloats  = failure("ERR min or max is not a float")
	syntax     = failure("ERR syntax error")
	readOnly   = failure("READONLY You can't write against a read only replica.")
)

func status(text string) reply         { return reply{kind: kindStatus, text: text} }
func failure(text string) reply        { return reply{kind: kindError, text: text} }
func bulk(text string) reply           { return reply{kind: kindBulk, text: text} }
func array(items ...reply) reply       { return reply{kind: kindArray, items: items} }
func integer[T int | int64](n T) reply { return reply{kind: kindInteger, number: int64(n)} }

func bulks(texts ...string) reply {
	items := make([]reply, len(texts))
	for i, text := range texts {
		items[i] = bulk(text)
	}
	return array(items...)
}

// appendTo writes r as RESP2.
func (r reply) appendTo(dst []byte) []byte {
	switch r.kind {
	case kindStatus:
		dst = append(append(dst, '+'), r.text...)
		dst = append(dst, "\r\n"...)
	case kindError:
		dst = append(append(dst, '-'), r.text...)
		dst = append(dst, "\r\n"...)
	case kindInteger:
		dst = appendHeader(dst, ':', r.number)
	case kindBulk:
		dst = appendHeader(dst, '$', int64(len(r.text)))
		dst = append(append(dst, r.text...), "\r\n"...)
	case kindNil:
		dst = appendHeader(dst, '$', -1)
	case kindArray, kindSeveral:
		if r.kind == kindArray {
			dst = appendHeader(dst, '*', int64(len(r.items)))
		}
		for _, item := range r.items {
			dst = item.appendTo(dst)
		}
	}
	return dst
}

func appendHeader(dst []byte, kind byte, n int64) []byte {
	dst = strconv.AppendInt(append(dst, kind), n, 10)
	return append(dst, "\r\n"...)
}
