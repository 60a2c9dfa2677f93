package fake

import (
	"slices"
	"strings"
)

// allowedSubscribed holds what RESP2 lets a client send while it is subscribed.
var allowedSubscribed = map[string]bool{"subscribe": true, "unsubscribe": true, "psubscribe": true, "ping": true, "quit": true}

func pubsubCommands() []command {
	return []command{
		{name: "publish", arity: 3, run: publish},
		{name: "pubsub", arity: -2, run: pubsub},
		{name: "psubscribe", arity: -2, run: psubscribe, noScript: true},
		{name: "subscribe", arity: -2, run: subscribe, noScript: true},
		{name: "unsubscribe", arity: -1, run: unsubscribe, noScript: true},
	}
}

// publish pushes a message to the subscribers and answers how many there are, including those that
// are gone without the server having noticed.
func publish(n *Node, _ *session, args []string) reply {
	receivers := n.process.channels[args[1]]
	push := bulks("message", args[1], args[2])
	for _, s := range receivers {
		s.replyLocked(push)
		s.signal()
	}
	count := len(receivers)
	for _, m := range n.process.monitors {
		if begin, _ := strings.CutSuffix(m.pattern, "*"); strings.HasPrefix(args[1], begin) {
			m.session.replyLocked(bulks("pmessage", m.pattern, args[1], args[2]))
			m.session.signal()
			count++
		}
	}
	return integer(count)
}

// pubsub serves PUBSUB NUMSUB, which counts the subscribers of channels but not of patterns.
func pubsub(n *Node, _ *session, args []string) reply {
	if !strings.EqualFold(args[1], "numsub") {
		return unsupported("PUBSUB " + args[1])
	}
	var items []reply
	for _, channel := range args[2:] {
		items = append(items, bulk(channel), integer(len(n.process.channels[channel])))
	}
	return array(items...)
}

// monitor is a subscription to a pattern: a prefix of channel names, and "*".
type monitor struct {
	pattern string
	session *session
}

func psubscribe(n *Node, s *session, args []string) reply {
	answers := reply{kind: kindSeveral}
	for _, pattern := range args[1:] {
		if begin, isPrefix := strings.CutSuffix(pattern, "*"); !isPrefix || strings.ContainsAny(begin, `*?[\`) {
			return unsupported("PSUBSCRIBE " + pattern)
		}
		if m := (monitor{pattern, s}); !slices.Contains(n.process.monitors, m) {
			n.process.monitors = append(n.process.monitors, m)
			s.patterns++
		}
		answers.items = append(answers.items, s.subscription("psubscribe", bulk(pattern)))
	}
	return answers
}

func subscribe(n *Node, s *session, args []string) reply {
	answers := reply{kind: kindSeveral}
	for _, channel := range args[1:] {
		if !slices.Contains(s.subscribed, channel) {
			s.subscribed = append(s.subscribed, channel)
			n.process.channels[channel] = append(n.process.channels[channel], s)
		}
		answers.items = append(answers.items, s.subscription("subscribe", bulk(channel)))
	}
	return answers
}

func unsubscribe(n *Node, s *session, args []string) reply {
	channels := args[1:]
	if len(channels) == 0 {
		channels = slices.Clone(s.subscribed)
	}
	if len(channels) == 0 {
		return s.subscription("unsubscribe", replyNil)
	}
	answers := reply{kind: kindSeveral}
	for _, channel := range channels {
		n.unsubscribeLocked(s, channel)
		answers.items = append(answers.items, s.subscription("unsubscribe", bulk(channel)))
	}
	return answers
}

func (s *session) subscription(verb string, channel reply) reply {
	return array(bulk(verb), channel, integer(len(s.subscribed)+s.patterns))
}

func (n *Node) unsubscribeLocked(s *session, channel string) {
	same := func(other *session) bool { return other == s }
	s.subscribed = slices.DeleteFunc(s.subscribed, func(name string) bool { return name == channel })
	n.process.channels[channel] = slices.DeleteFunc(n.process.channels[channel], same)
	if len(n.process.channels[channel]) == 0 {
		delete(n.process.channels, channel)
	}
}

func (n *Node) unsubscribeAllLocked(s *session) {
	for _, channel := range slices.Clone(s.subscribed) {
		n.unsubscribeLocked(s, channel)
	}
	n.process.monitors = slices.DeleteFunc(n.process.monitors, func(m monitor) bool { return m.session == s })
	s.patterns = 0
}
