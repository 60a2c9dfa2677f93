package masters

import (
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
)

// Variables of the environment that name the masters. They belong together: where a flag names
// other masters, none of them counts.
const (
	Variable     = "REDLOCK_NODES"      // endpoints, as --nodes has them
	FileVariable = "REDLOCK_NODES_FILE" // as --nodes-file

	certVariable  = "REDLOCK_CERT"
	keyVariable   = "REDLOCK_KEY"
	caVariable    = "REDLOCK_CACERT"
	trustVariable = "REDLOCK_TRUST_MEMBERS"
)

// findInEnvironment returns what find returns, of the variables. Flags come before those of files.
func (f *Flags) findInEnvironment() (endpoints, places []string, source string, err error) {
	switch nodes, file := os.Getenv(Variable), os.Getenv(FileVariable); {
	case nodes != "" && file != "":
		return nil, nil, "", cli.Usagef("%s and %s: set only one of them", Variable, FileVariable)
	case nodes != "":
		endpoints, source = Split([]string{nodes}), Variable
	case file != "":
		source = FileVariable
		if endpoints, places, err = readFile(file, source); err != nil {
			return nil, nil, "", cli.Usagef("%s: %w", source, err)
		}
	default:
		return nil, nil, "", cli.Usagef("which masters? Set %s, or give --nodes or --nodes-file", Variable)
	}
	f.tls.Cert = cmp.Or(f.tls.Cert, os.Getenv(certVariable))
	f.tls.Key = cmp.Or(f.tls.Key, os.Getenv(keyVariable))
	f.tls.CA = cmp.Or(f.tls.CA, os.Getenv(caVariable))
	trusts, _ := strconv.ParseBool(os.Getenv(trustVariable)) //nolint:errcheck // what is no yes is a no
	f.trustMembers = f.trustMembers || trusts
	return endpoints, places, source, nil
}

// Environment returns variables with which a command finds the masters that these flags name, as
// they were given: a password that was in a file stays there. Those with an empty value are to be
// removed. What is not among them counts for the command as it does here.
func (f *Flags) Environment(cmd *cobra.Command) (variables []string) {
	set := func(name, value string, isPath bool) {
		if isPath && value != "" { // the command may go elsewhere
			if absolute, err := filepath.Abs(value); err == nil {
				value = absolute
			}
		}
		variables = append(variables, name+"="+value)
	}
	all := cmd.Flags().Changed("nodes") || cmd.Flags().Changed("nodes-file")
	if all {
		set(Variable, strings.Join(f.nodes, ","), false)
		set(FileVariable, f.file, true)
	}
	for _, of := range []struct{ name, path string }{{certVariable, f.tls.Cert}, {keyVariable, f.tls.Key}, {caVariable, f.tls.CA}} {
		if all || of.path != "" {
			set(of.name, of.path, true)
		}
	}
	if trusts := ""; all || f.trustMembers {
		if f.trustMembers {
			trusts = "1"
		}
		set(trustVariable, trusts, false)
	}
	return variables
}
