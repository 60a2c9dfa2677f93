package job

import (
	"strings"

	"github.com/redquorum/redquorum/cmd/redlock/internal/masters"
)

// Variables in the environment of the command.
const (
	NameVariable  = "REDLOCK_NAME"
	FenceVariable = "REDLOCK_FENCE"
	UntilVariable = "REDLOCK_UNTIL"
)

// Environment returns the environment of a command: ours without the passwords of the masters and
// without the variables of an outer redlock, and with these variables.
func Environment(ours []string, variables ...string) []string {
	env := make([]string, 0, len(ours)+len(variables))
	for _, variable := range ours {
		switch name, _, _ := strings.Cut(variable, "="); name {
		case masters.Variable, NameVariable, FenceVariable, UntilVariable:
		default:
			env = append(env, variable)
		}
	}
	return append(env, variables...)
}
