package trouble

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const page = "../../docs/troubles.md"

var update = flag.Bool("update", false, "write the table into "+page)

// sections are the headings of the page, and their rows.
var sections = []struct {
	heading string
	rows    []Row
}{
	{"The connection fails", connection},
	{"The server does not let us in", access},
	{"The server is none for locks", character},
	{"The server does not do what it is asked", state},
	{"The user lacks a right, or the server a command", rights},
	{"The key is not that of a lock", keys},
	{"The vote does not count", votes},
	{"The list differs from the members, or is a poor one", lists},
	{"It works today", today},
	{"What a restart forgets", restarts},
}

// The page in docs is this table.
func TestThePageHasTheTable(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	intro, _, _ := strings.Cut(string(text), "\n## ")
	var b strings.Builder
	b.WriteString(strings.TrimRight(intro, "\n") + "\n")
	for _, section := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n| trouble | | told apart by | why it matters, and what to do |\n| --- | --- | --- | --- |\n", section.heading)
		for _, row := range section.rows {
			says := row.Says
			if says != "" {
				says += ": …"
			}
			cure := row.Why + ". **" + strings.ToUpper(row.Do[:1]) + row.Do[1:] + ".**"
			if len(row.Commands) > 0 {
				cure += " `" + strings.Join(row.Commands, "` `") + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s%s | %s | %s |\n", row.Kind, row.Severity, strings.TrimSuffix(": "+says, ": "), row.Told, escaped(cure))
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(b.String()), 0o600))
	}
	assert.Equal(t, b.String(), string(text), "go test ./internal/trouble -update writes it")
}

// escaped returns a text in which a page shows what is in capitals, braces and pipes as it is.
func escaped(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// Each kind has one row, in one section, and each row a way to tell it apart and a cure.
func TestEachKindHasARow(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "kinds.go", nil, 0)
	require.NoError(t, err)
	kinds := map[Kind]int{}
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, is := n.(*ast.BasicLit); is {
			text, err := strconv.Unquote(literal.Value)
			require.NoError(t, err)
			kinds[Kind(text)]++
		}
		return true
	})
	shown := 0
	for _, section := range sections {
		shown += len(section.rows)
	}
	assert.Len(t, Table, shown)
	assert.Len(t, kinds, len(Table))
	assert.GreaterOrEqual(t, len(Table), 45)
	for _, row := range Table {
		assert.Equal(t, 1, kinds[row.Kind], row.Kind)
		assert.Same(t, row.Kind.Row(), row.Kind.Row())
		assert.NotEmpty(t, row.Check, row.Kind)
		assert.NotEmpty(t, row.Severity, row.Kind)
		assert.NotEmpty(t, row.Told, row.Kind)
		assert.NotEmpty(t, row.Why, row.Kind)
		assert.NotEmpty(t, row.Do, row.Kind)
	}
	assert.Panics(t, func() { Kind("nonsense").Row() })
}

// Servers of all versions say the same in other words, scripts in others again.
func TestRepliesAreToldApart(t *testing.T) {
	for words, want := range map[string]Kind{
		"NOPERM this user has no permissions to run the 'zadd' command or its subcommand":                                                            Right,
		"ERR The user executing the script can't run this command or subcommand script: 5bca1, on @user_script:1.":                                   Right,
		"ERR Error running script (call to f_5bca1): @user_script:1: The user executing the script can't run this command or subcommand":             Right,
		"ERR Error running script (call to f_5bca1): @user_script: 1: The user executing the script can't access at least one of the keys mentioned": Right,
		"ERR ACL failure in script: User app has no permissions to run the 'zadd' command script: 5bca1, on @user_script:1.":                         Right,
		"ERR unknown command 'ZADD', with args beginning with: 'x' ":                                                                                 Unknown,
		"ERR unknown subcommand 'DRYRUN'. Try ACL HELP.":                                                                                             Unknown,
		"ERR Unknown Redis command called from script script: 5bca1, on @user_script:1.":                                                             Unknown,
		"ERR Error running script (call to f_5bca1): @user_script: 1: Unknown Redis command called from Lua script":                                  Unknown,
		"Unknown Redis command called from Lua script":                                                                                               Unknown,
		"OOM command not allowed when used memory > 'maxmemory'.":                                                                                    Full,
		"ERR max number of clients reached":                                                                                                          ManyClients,
		"ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?":               NeedlessPassword,
		"ERR Client sent AUTH, but no password is set":                                                                                               NeedlessPassword,
		"ERR DB index is out of range": Database,
		"ERR syntax error":             "",
		"ERR user_script:1: a value that mentions NOPERM and an unknown command": "",
		"MOVED 1 a:1": "",
	} {
		assert.Equal(t, want, OfReply(words), words)
		assert.Equal(t, want, Of(fmt.Errorf("SET: %w", redis.Error(words))), words)
	}
	assert.Empty(t, Of(nil))
	assert.Empty(t, Of(errors.New("NOPERM in prose")))
}

// A script that was answered with a state has changed nothing: all else may have come midway.
func TestStatesAreToldFromWhatACommandGetsWrong(t *testing.T) {
	for words, want := range map[string]Kind{
		"READONLY You can't write against a read only replica.": Replica,
		"OOM command not allowed":                               Full, "NOSCRIPT No matching script.": NoScripts, "NOAUTH Authentication required.": NoPassword,
		"NOPERM this user has no permissions": "", "WRONGTYPE Operation against a key": "", "ERR value is not an integer": "", "READONLYSO": "",
	} {
		assert.Equal(t, want, StateOf(fmt.Errorf("EVALSHA: %w", redis.Error(words))), words)
	}
	assert.Empty(t, StateOf(nil))
	assert.Empty(t, StateOf(errors.New("BUSY in prose")))
}

// What the author of an error marked counts before what it wraps, and changes neither its text nor
// what it is.
func TestAMarkCountsFirst(t *testing.T) {
	sentinel := Mark(NoScripts, errors.New("no scripts"))
	err := fmt.Errorf("%w: %w", sentinel, redis.Error("NOPERM"))
	assert.Equal(t, NoScripts, Of(err))
	require.ErrorIs(t, err, sentinel)
	assert.Equal(t, "no scripts: NOPERM", err.Error())
	assert.Equal(t, Torn, Of(Mark(Torn, Mark(Quarantined, err))))
}

// A hint is whole: what only an examination knows is not in it.
func TestHintsNeedNoExamination(t *testing.T) {
	for _, row := range Table {
		assert.NotContains(t, row.Kind.Hint(), "{", row.Kind)
	}
	assert.Equal(t, " (`redlock doctor` says what to do)", Right.Hint())
	assert.Empty(t, Kind("").Hint())
	assert.Empty(t, Quarantined.Hint())
	assert.Contains(t, Evicts.Hint(), "CONFIG SET maxmemory-policy noeviction")
}
