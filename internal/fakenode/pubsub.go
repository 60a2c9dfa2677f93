package fakenode

import "slices"

// allowedSubscribed has what a client may send while it is subscribed, by RESP2.
var allowedSubscribed = map[string]bool{"subscribe": true, "unsubscribe": true, "ping": true, "quit": true}

func pubsubCommands() []command {
	return []command{
		{name: "publish", arity: 3, run: publish},
		{name: "subscribe", arity: -2, run: subscribe, noScript: true},
		{name: "unsubscribe", arity: -1, run: unsubscribe, noScript: true},
	}
}

// publish pushes a message to the subscribers and answers how many there are: also those who no longer listen, as
// long as the server has not noticed.
func publish(n *Node, _ *session, args []string) reply {
	receivers := n.process.channels[args[1]]
	push := bulks("message", args[1], args[2])
	for _, s := range receivers {
		s.replyLocked(push)
		s.look()
	}
	return integer(len(receivers))
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
	return array(bulk(verb), channel, integer(len(s.subscribed)))
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
}
