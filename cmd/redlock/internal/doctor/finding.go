package doctor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/internal/trouble"
)

// finding is something to know about a master, or about all of them: a row of [trouble.Table] with
// what was seen. Its field names are documented (redlock help doctor).
type finding struct {
	Severity trouble.Severity `json:"severity"`
	Check    string           `json:"check"` // a word that never changes
	Kind     trouble.Kind     `json:"kind"`  // likewise, and there are more of them
	What     string           `json:"what"`
	Why      string           `json:"why"`
	Do       string           `json:"do"`
	Commands []string         `json:"commands"` // that do it; those of redlock begin with that word
}

// key is the same for findings that say the same.
func (f *finding) key() string { return fmt.Sprint(*f) }

// fill has what stands for the words in braces of a row.
type fill map[string]string

// findings collects what is found at one master, or in the list.
type findings struct {
	fill fill // of all of them
	all  []finding
}

// add adds what was found. The format what takes the arguments. The finding may be changed until
// the next one is added.
func (r *findings) add(k trouble.Kind, with fill, what string, args ...any) *finding {
	row, words := k.Row(), []string{}
	for name, value := range r.fill {
		if _, special := with[name]; !special {
			words = append(words, "{"+name+"}", value)
		}
	}
	for name, value := range with {
		words = append(words, "{"+name+"}", value)
	}
	filled := strings.NewReplacer(words...).Replace
	found := finding{
		Severity: row.Severity, Check: row.Check, Kind: k, What: prose.Readable(fmt.Sprintf(what, args...)),
		Why: filled(row.Why), Do: filled(row.Do), Commands: []string{},
	}
	for _, command := range row.Commands {
		if command = filled(command); command != "" {
			found.Commands = append(found.Commands, command)
		}
	}
	r.all = append(r.all, found)
	return &r.all[len(r.all)-1]
}

// addError adds what an error says, which is of a kind.
func (r *findings) addError(k trouble.Kind, err error, with fill) *finding {
	return r.add(k, with, "%s", cli.Cause(k, err))
}

// addRefusal adds a command or keys that were refused: the user may not, and a rule allows it, or
// the server does not have the command.
func (r *findings) addRefusal(k trouble.Kind, refusal error, cost, rule, what string, args ...any) *finding {
	if trouble.Of(refusal) == trouble.Unknown {
		row := k.Row()
		if k != trouble.Right {
			cost = row.Why
		}
		found := r.add(trouble.Unknown, fill{"cost": cost}, what+" is refused: %v", append(args, refusal)...)
		found.Severity, found.Check = row.Severity, row.Check
		return found
	}
	return r.add(k, fill{"cost": cost, "rule": rule}, what+" is refused: %v", append(args, refusal)...)
}

// checkConnection explains why there is no connection.
func (f *facts) checkConnection(r *findings) {
	kind := trouble.Of(f.err)
	switch {
	case kind == "":
		kind = trouble.Unreachable
	case kind == trouble.NoScripts && trouble.OfReply(wordsIn(f.err)) == trouble.Unknown:
		found := r.addError(trouble.Unknown, f.err, fill{"cost": trouble.NoScripts.Row().Why})
		found.Severity, found.Check = trouble.Error, trouble.NoScripts.Row().Check
		return
	case kind == trouble.Right: // a lock needs no other command that fails a connection
		found := r.addError(kind, f.err, fill{"cost": "without it there is no connection", "rule": f.setUser() + "+select"})
		found.Severity = trouble.Error
		return
	case kind == trouble.Full:
		r.addError(kind, f.err, fill{"bytes": "BYTES"}).Do += "; BYTES are twice as many as now"
		return
	}
	r.addError(kind, f.err, nil)
}

// wordsIn returns the server's words in an error; "" if there are none.
func wordsIn(err error) string {
	var words redis.Error
	errors.As(err, &words)
	return string(words)
}

// takeStates takes out of what was refused all that is due to a state of the server: it is told
// once, and not for each command.
func (f *facts) takeStates() {
	f.states = map[trouble.Kind]error{}
	take := func(refusal error) bool {
		kind := trouble.StateOf(refusal)
		if kind == "" || kind == trouble.NoPassword || kind == trouble.NoScripts {
			return false
		}
		f.states[kind] = refusal
		return true
	}
	maps.DeleteFunc(f.denied, func(_ string, refusal error) bool { return take(refusal) })
	for _, refusal := range []*error{&f.unreadable, &f.unwritable, &f.byList, &f.derived, &f.outside, &f.unusable} {
		if take(*refusal) {
			*refusal = nil
		}
	}
	for check, lacks := range f.lacks {
		kept := lacks[:0]
		for _, l := range lacks {
			if !take(l.refusal) {
				kept = append(kept, l)
			}
		}
		f.lacks[check] = kept
	}
}

// checkStates tells what keeps the server from doing what it is asked.
func (f *facts) checkStates(r *findings) {
	for _, kind := range slices.Sorted(maps.Keys(f.states)) {
		switch refusal := f.states[kind]; {
		case kind == trouble.Full:
			what, bytes, fewer := f.whatFills()
			if fewer != "" {
				kind = trouble.FullOfOurs
			}
			r.add(kind, fill{"bytes": bytes, "fewer": fewer}, "%s%s", kind.Row().Says, what)
		case kind == trouble.NotWriting && f.info["rdb_last_bgsave_status"] != "err" && f.info["aof_last_write_status"] == "err":
			r.addError(trouble.LogFails, refusal, nil)
		default:
			r.addError(kind, refusal, nil)
		}
	}
}
