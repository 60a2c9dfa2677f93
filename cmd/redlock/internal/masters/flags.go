// Package masters finds the masters that a command line names, and waits until it is known which of
// them vote.
package masters

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// Variable names the environment variable with the endpoints of the masters.
const Variable = "REDLOCK_NODES"

// maxFile is far more than 64 endpoints need, the most that a Locker takes.
const maxFile = 64 << 10

// Flags name the masters, and hold what everyone who shares them agrees on.
type Flags struct {
	KeyPrefix string
	MaxTTL    time.Duration
	Strict    bool // redlock.QuarantineStrict

	nodes []string
	file  string
}

// Add adds the flags to a command.
func (f *Flags) Add(cmd *cobra.Command) {
	// Not a StringSlice: its errors quote what they cannot parse, including passwords.
	cmd.Flags().StringArrayVar(&f.nodes, "nodes", nil,
		"`endpoints` of the masters: redis://, rediss://, unix:// or "+
			"host:port; separated by commas, or repeated (default: "+
			Variable+"). Everyone on this machine can see them, "+
			"including passwords: prefer "+Variable+" or --nodes-file")
	cmd.Flags().StringVar(&f.file, "nodes-file", "",
		"`file` with the endpoints, one per line; # begins a comment")
	cmd.Flags().StringVar(&f.KeyPrefix, "key-prefix", "",
		"`text` in front of the name; the same for everyone who shares the lock")
	cmd.Flags().DurationVar(&f.MaxTTL, "max-ttl", time.Minute,
		"longest TTL of anyone who shares the masters; the same for all of them")
	cmd.Flags().BoolVar(&f.Strict, "strict", false,
		"also in a new cluster, masters vote only after the longest "+
			"TTL, or after redlock init (QuarantineStrict); the same for everyone")
}

// Endpoints returns the endpoints from the flags, or else from the environment.
func (f *Flags) Endpoints(cmd *cobra.Command) (endpoints []string, err error) {
	endpoints, _, err = f.find(cmd)
	return endpoints, err
}

// find returns the endpoints, and what they were given by.
func (f *Flags) find(cmd *cobra.Command) (endpoints []string, source string, err error) {
	source = "--nodes"
	switch {
	case cmd.Flags().Changed("nodes") && cmd.Flags().Changed("nodes-file"):
		return nil, "", cli.Usagef("--nodes and --nodes-file: give only one of them")
	case cmd.Flags().Changed("nodes"):
		endpoints = Split(f.nodes)
	case cmd.Flags().Changed("nodes-file"):
		source = "--nodes-file"
		if endpoints, err = readFile(f.file); err != nil {
			return nil, "", cli.Usagef("--nodes-file: %w", err)
		}
	case os.Getenv(Variable) != "":
		source = Variable
		endpoints = Split([]string{os.Getenv(Variable)})
	default:
		return nil, "", cli.Usagef("which masters? Set %s, or give --nodes or --nodes-file", Variable)
	}
	if len(endpoints) == 0 {
		return nil, "", cli.Usagef("%s: no endpoint", source)
	}
	return endpoints, source, CheckEmpty(source, endpoints)
}

// CheckEmpty returns a usage error that names the source if one of the endpoints is empty.
func CheckEmpty(source string, endpoints []string) error {
	for i, endpoint := range endpoints {
		if endpoint == "" {
			return cli.Usagef("%s: endpoint %d of %d is empty", source, i+1, len(endpoints))
		}
	}
	return nil
}

// Split splits the values of --nodes at commas. A comma in a password is written %2C.
func Split(values []string) []string {
	var endpoints []string
	for _, value := range values {
		for endpoint := range strings.SplitSeq(value, ",") {
			endpoints = append(endpoints, strings.TrimSpace(endpoint))
		}
	}
	return endpoints
}

func readFile(path string) (endpoints []string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	for line := range strings.Lines(string(text)) {
		// A # inside an endpoint is part of it, and rejected with it.
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			endpoints = append(endpoints, Split([]string{line})...)
		}
	}
	return endpoints, nil
}

// Open returns a Locker over the masters. What it rejects is a mistake in the command line.
func (f *Flags) Open(cmd *cobra.Command, opts ...redlock.Option) (*redlock.Locker, error) {
	endpoints, source, err := f.find(cmd)
	if err != nil {
		return nil, err
	}
	shared := []redlock.Option{redlock.WithKeyPrefix(f.KeyPrefix), redlock.WithMaxTTL(f.MaxTTL)}
	if f.Strict {
		shared = append(shared, redlock.WithQuarantine(redlock.QuarantineStrict))
	}
	locker, err := redlock.New(endpoints, append(shared, opts...)...)
	if errors.Is(err, pool.ErrEndpoint) {
		return nil, wrongEndpoint(source, endpoints, cli.Reason(err, redlock.ErrInvalid))
	}
	return locker, cli.InvalidUsage(err)
}

// Wrong explains an error that begins with "endpoint", the number of one of [Flags.Endpoints], and
// wraps [pool.ErrEndpoint].
func (f *Flags) Wrong(cmd *cobra.Command, err error) error {
	endpoints, source, missing := f.find(cmd)
	if missing != nil {
		return missing
	}
	return wrongEndpoint(source, endpoints, err.Error())
}

// wrongEndpoint names the endpoint that the library's text is about, where it was given and, if it
// cannot contain a password, what was typed.
func wrongEndpoint(source string, endpoints []string, text string) error {
	var n int
	if _, err := fmt.Sscanf(text, "endpoint %d:", &n); err != nil || n < 1 || n > len(endpoints) {
		return cli.Usagef("%s", text)
	}
	_, why, _ := strings.Cut(text, pool.ErrEndpoint.Error()+": ")
	where := fmt.Sprintf("%s[%d]", source, n)
	if typed := endpoints[n-1]; !cli.MayHoldPassword(typed) {
		where += fmt.Sprintf(" %q", typed)
	}
	return cli.Usagef("%s: %s", where, why)
}
