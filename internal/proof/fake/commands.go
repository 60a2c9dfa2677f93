package fake

import (
	"strings"
)

// command is a row of the command table.
type command struct {
	name     string // in lower case
	arity    int    // number of arguments, the name included; negative: at least that many
	run      func(n *Node, s *session, args []string) reply
	noScript bool // refused in a script
	writes   bool // refused by a replica
	open     bool // allowed before AUTH
}

// table maps names to commands, in lower and in upper case, so that the usual spellings need no
// conversion.
var table map[string]*command

func init() { // not a literal: EVAL refers back to the table
	table = make(map[string]*command)
	for _, group := range [][]command{
		stringCommands(), keyCommands(), sortedSetCommands(), connectionCommands(), serverCommands(),
		pubsubCommands(), scriptCommands(),
	} {
		for _, c := range group {
			table[c.name] = &c
			table[strings.ToUpper(c.name)] = &c
		}
	}
}

func findCommand(name string) *command {
	if c := table[name]; c != nil {
		return c
	}
	return table[strings.ToLower(name)]
}

func (c *command) accepts(args []string) bool {
	return len(args) == c.arity || (c.arity < 0 && len(args) >= -c.arity)
}

// executeLocked runs a command that a client sent. It makes the checks of Redis, in Redis's order.
func (n *Node) executeLocked(s *session, args []string) reply {
	n.now = n.wall.micros()
	c := findCommand(args[0])
	switch {
	case n.rules.refuseAll != "":
		return failure(n.rules.refuseAll)
	case c == nil:
		return unknownCommand(args)
	case !c.accepts(args):
		return wrongArity(c.name)
	case n.settings.password != "" && !s.trusted && !c.open:
		return failure("NOAUTH Authentication required.")
	case n.rules.refuse[c.name] != "":
		return failure(n.rules.refuse[c.name])
	case len(s.subscribed)+s.patterns > 0 && !allowedSubscribed[c.name]:
		return failure("ERR Can't execute '" + strings.ToLower(args[0]) + "': only (P|S)SUBSCRIBE / " +
			"(P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
	case c.writes && n.process.replication.replica:
		return readOnly
	}
	return c.run(n, s, args)
}

// callLocked runs a command that a script calls.
func (n *Node) callLocked(s *session, args []string) reply {
	c := findCommand(args[0])
	switch {
	case c == nil:
		return failure("ERR Unknown Redis command called from script")
	case !c.accepts(args):
		return failure("ERR Wrong number of args calling Redis command from script")
	case c.noScript:
		return failure("ERR This Redis command is not allowed from script")
	case n.rules.refuse[c.name] != "":
		return failure(n.rules.refuse[c.name])
	case c.writes && n.process.replication.replica:
		return readOnly
	}
	return c.run(n, s, args)
}

func unknownCommand(args []string) reply {
	const most = 128 // characters that Redis quotes
	var rest strings.Builder
	for _, arg := range args[1:] {
		if rest.Len() >= most {
			break
		}
		rest.WriteString("'" + arg[:min(len(arg), most-rest.Len())] + "' ")
	}
	name := args[0][:min(len(args[0]), most)]
	return oneLine("ERR unknown command '" + name + "', with args beginning with: " + rest.String())
}

func wrongArity(name string) reply {
	return failure("ERR wrong number of arguments for '" + name + "' command")
}

func unknownSubcommand(args []string) reply {
	return oneLine("ERR unknown subcommand '" + args[1] + "'. Try " + strings.ToUpper(args[0]) + " HELP.")
}

// unsupported is the error for something that Redis can do and this fake cannot.
func unsupported(what string) reply {
	return oneLine("ERR fake does not implement " + what)
}

// oneLine is a failure whose text may come from a client: it has no line breaks.
func oneLine(text string) reply {
	return failure(strings.NewReplacer("\r", " ", "\n", " ").Replace(text))
}
