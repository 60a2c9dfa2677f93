package fake

import (
	"bytes"
	"fmt"
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
	text := string(data[:size]) // one allocation; the arguments are parts of it
	args = make([]string, count)
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
		got := byte('\r')
		if len(line) > 0 {
			got = line[0]
		}
		return 0, 0, protocolError(fmt.Sprintf("expected '$', got '%c'", got))
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
