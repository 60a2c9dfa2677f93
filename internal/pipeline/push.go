package pipeline

// push is what a server sends to a subscriber: a message, the confirmation of SUBSCRIBE, or the
// reply to PING.
type push struct {
	kind    pushKind
	channel string // empty for a pong
	text    string // of a message or a pong
}

type pushKind uint8

const (
	pushMessage pushKind = iota
	pushSubscribe
	pushUnsubscribe
	pushPong
)

// parsePush reads a reply. It reports whether that is, in every entry, one that RESP2 has for a
// subscriber to a single channel. A subscriber receives things that it did not ask for, so only
// this shape shows whether the server is in step.
func parsePush(reply any) (p push, ok bool) {
	entries, _ := reply.([]any)
	if len(entries) < 2 {
		return push{}, false
	}
	kind, ok := entries[0].([]byte)
	if !ok {
		return push{}, false
	}
	second, named := entries[1].([]byte)
	switch string(kind) {
	case "pong":
		return push{kind: pushPong, text: string(second)}, named && len(entries) == 2
	case "message":
		if len(entries) != 3 {
			return push{}, false
		}
		text, ok := entries[2].([]byte)
		return push{kind: pushMessage, channel: string(second), text: string(text)}, ok && named
	case "subscribe":
		return push{kind: pushSubscribe, channel: string(second)}, named && hasCount(entries, 1)
	case "unsubscribe":
		return push{kind: pushUnsubscribe, channel: string(second)}, named && hasCount(entries, 0)
	}
	return push{}, false
}

// hasCount reports whether the third and last entry gives the client that many subscriptions.
func hasCount(entries []any, want int64) bool {
	if len(entries) != 3 {
		return false
	}
	count, ok := entries[2].(int64)
	return ok && count == want
}
