package fake

import (
	"slices"
	"strings"
)

func connectionCommands() []command {
	return []command{
		{name: "ping", arity: -1, run: ping},
		{name: "echo", arity: 2, run: func(_ *Node, _ *session, args []string) reply { return bulk(args[1]) }},
		{name: "quit", arity: -1, run: quit, noScript: true, open: true},
		{name: "auth", arity: -2, run: auth, noScript: true, open: true},
		{name: "select", arity: 2, run: selectDatabase},
		{name: "client", arity: -2, run: client, noScript: true},
	}
}

func ping(_ *Node, s *session, args []string) reply {
	if len(args) > 2 {
		return wrongArity("ping")
	}
	message := append(args[1:], "")[0]
	switch {
	case len(s.subscribed)+s.patterns > 0:
		return bulks("pong", message)
	case len(args) == 2:
		return bulk(message)
	}
	return status("PONG")
}

func quit(_ *Node, s *session, _ []string) reply {
	s.hangUp = true
	return replyOK
}

func auth(n *Node, s *session, args []string) reply {
	password := n.settings.password
	switch {
	case len(args) > 3:
		return syntax
	case len(args) == 2 && password == "":
		return failure("ERR AUTH <password> called without any password configured for the default user. " +
			"Are you sure your configuration is correct?")
	case len(args) == 3 && args[1] != "default", password != "" && args[len(args)-1] != password:
		return failure("WRONGPASS invalid username-password pair or user is disabled.")
	}
	s.trusted = true
	return replyOK
}

func selectDatabase(_ *Node, s *session, args []string) reply {
	index, ok := parseInt(args[1])
	switch {
	case !ok:
		return notInteger
	case index < 0 || index >= databases:
		return failure("ERR DB index is out of range")
	}
	s.db = int(index)
	return replyOK
}

// client serves CLIENT ID, GETNAME, SETNAME, SETINFO (Redis 7.2) and KILL ID.
func client(n *Node, s *session, args []string) reply {
	arity := map[string]int{"id": 2, "getname": 2, "setname": 3, "setinfo": 4, "kill": -3}
	sub := strings.ToLower(args[1])
	switch want, ok := arity[sub]; {
	case !ok:
		return unknownSubcommand(args)
	case want > 0 && len(args) != want, len(args) < -want:
		return wrongArity("client|" + sub)
	}
	switch sub {
	case "id":
		return integer(s.id)
	case "getname":
		if s.name == "" {
			return replyNil
		}
		return bulk(s.name)
	case "setname":
		if strings.ContainsFunc(args[2], func(c rune) bool { return c < '!' || c > '~' }) {
			return failure("ERR Client names cannot contain spaces, newlines or special characters.")
		}
		s.name = args[2]
	case "kill":
		return n.killClient(s, args[2:])
	}
	return replyOK
}

// killClient serves CLIENT KILL ID number.
func (n *Node) killClient(s *session, args []string) reply {
	switch {
	case len(args) == 1: // the old form, with an address; ours have none
		return failure("ERR No such client")
	case len(args) != 2 || !strings.EqualFold(args[0], "id"):
		return unsupported("CLIENT KILL but by ID")
	}
	id, ok := parseInt(args[1])
	if !ok || id < 1 {
		return failure("ERR client-id should be greater than 0")
	}
	i := slices.IndexFunc(n.sessions, func(other *session) bool {
		return other.id == id && !other.dead && !other.hangUp
	})
	if i < 0 {
		return integer(0)
	}
	n.sessions[i].hangUp = true
	if n.sessions[i] != s {
		n.sessions[i].signal()
	}
	return integer(1)
}
