package fake

import "strconv"

// reply is an answer of the server before it is written as RESP or passed to a script.
type reply struct {
	kind   replyKind
	text   string  // of a status, an error, a bulk
	number int64   // of an integer
	items  []reply // of an array, and of several
}

type replyKind byte

const (
	kindNone    replyKind = iota // nothing is sent: the zero reply
	kindStatus                   // +text
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
	case kindNone:
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
