// Package masters finds the masters that a command line names, and waits until it is known which of
// them vote.
package masters

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/internal/trouble"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// maxFile is far more than 64 endpoints need, the most that a Locker takes.
const maxFile = 64 << 10

// Flags name the masters, and hold what everyone who shares them agrees on.
type Flags struct {
	KeyPrefix string
	MaxTTL    time.Duration
	Strict    bool // redlock.QuarantineStrict

	trustMembers bool

	nodes []string
	file  string
	tls   pool.TLSFiles
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
		"`file` with the endpoints, one per line; # at the beginning, or after a space, begins a comment")
	cmd.Flags().StringVar(&f.tls.Cert, "cert", "", "`file` with the client certificate for rediss:// endpoints that want one; read anew by each connection")
	cmd.Flags().StringVar(&f.tls.Key, "key", "", "`file` with the key of --cert")
	cmd.Flags().StringVar(&f.tls.CA, "cacert", "", "`file` with the authorities that sign the certificates of rediss:// endpoints (default: the system's)")
	cmd.Flags().BoolVar(&f.trustMembers, "trust-members", false,
		"also connect to members on hosts that are not among the endpoints, with the password and certificate "+
			"of the first (WithMemberCredentials)")
	cmd.Flags().StringVar(&f.KeyPrefix, "key-prefix", "",
		"`text` in front of the name; the same for everyone who shares the lock")
	cmd.Flags().DurationVar(&f.MaxTTL, "max-ttl", time.Minute,
		"longest TTL that is asked for, and the MaxTTL of a new cluster; one that exists has its own: redlock members")
	cmd.Flags().BoolVar(&f.Strict, "strict", false,
		"also in a new cluster, masters vote only after the longest "+
			"TTL, or after redlock init (QuarantineStrict); the same for everyone")
}

// find returns the endpoints from the flags, or else from the environment, and where each of them
// was given.
func (f *Flags) find(cmd *cobra.Command) (endpoints, places []string, err error) {
	source := "--nodes"
	switch {
	case cmd.Flags().Changed("nodes") && cmd.Flags().Changed("nodes-file"):
		return nil, nil, cli.Usagef("--nodes and --nodes-file: give only one of them")
	case cmd.Flags().Changed("nodes"):
		endpoints = Split(f.nodes)
	case cmd.Flags().Changed("nodes-file"):
		source = "--nodes-file"
		if endpoints, places, err = readFile(f.file, source); err != nil {
			return nil, nil, cli.Usagef("--nodes-file: %w", err)
		}
	default:
		if endpoints, places, source, err = f.findInEnvironment(); err != nil {
			return nil, nil, err
		}
	}
	if len(endpoints) == 0 {
		return nil, nil, cli.Usagef("%s: no endpoint", source)
	}
	for n := len(places); n < len(endpoints); n++ {
		places = append(places, fmt.Sprintf("%s[%d]", source, n+1))
	}
	if err := checkEmpty(source, endpoints); err != nil {
		return nil, nil, err
	}
	return endpoints, places, f.checkFiles(endpoints)
}

// checkFiles returns a usage error for files that no connection could use.
func (f *Flags) checkFiles(endpoints []string) error {
	if f.tls == (pool.TLSFiles{}) {
		return nil
	}
	if (f.tls.Cert == "") != (f.tls.Key == "") {
		return cli.Usagef("--cert and --key: give both of them, or none")
	}
	if !slices.ContainsFunc(endpoints, func(e string) bool { return strings.HasPrefix(strings.ToLower(e), "rediss://") }) {
		return cli.Usagef("--cert, --key and --cacert are for rediss:// endpoints, and there is none")
	}
	for _, one := range []struct{ flag, path string }{{"cert", f.tls.Cert}, {"key", f.tls.Key}, {"cacert", f.tls.CA}} {
		if one.path == "" {
			continue
		}
		file, err := os.Open(one.path)
		if err != nil {
			return cli.Usagef("--%s: %w", one.flag, err)
		}
		if err := file.Close(); err != nil {
			return cli.Usagef("--%s: %w", one.flag, err)
		}
	}
	return nil
}

// checkEmpty returns a usage error that names the source if one of the endpoints is empty.
func checkEmpty(source string, endpoints []string) error {
	for i, endpoint := range endpoints {
		if endpoint == "" {
			return cli.Usagef("%s: endpoint %d of %d is empty", source, i+1, len(endpoints))
		}
	}
	return nil
}

// Split splits the values of --nodes at commas and at the ends of lines. A comma in a password is
// written %2C.
func Split(values []string) []string {
	var endpoints []string
	for _, value := range values {
		if value = strings.TrimSpace(value); strings.ContainsAny(value, "\r\n") {
			value = lineEnd().ReplaceAllString(value, ",")
		}
		for endpoint := range strings.SplitSeq(value, ",") {
			endpoints = append(endpoints, strings.TrimSpace(endpoint))
		}
	}
	return endpoints
}

// lineEnd is what separates endpoints as one comma does.
var lineEnd = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\s*,?\s*[\r\n]+\s*`) })

// comment is the end of a line of a file. A # inside an endpoint is part of it, and rejected with
// it.
var comment = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(^|\s)#.*`) })

// readFile returns the endpoints in a file, and the line of each. Source names the file for people.
func readFile(path, source string) (endpoints, places []string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, nil, err
	}
	if len(text) > maxFile {
		return nil, nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	n := 0
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // which some editors put there
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSpace(comment().ReplaceAllString(line, ""))
		line = strings.TrimSuffix(line, ",")
		if line == "" {
			continue
		}
		for _, endpoint := range Split([]string{line}) {
			endpoints, places = append(endpoints, endpoint), append(places, fmt.Sprintf("%s, line %d", source, n))
		}
	}
	return endpoints, places, nil
}

// Open returns a Locker over the masters. What it rejects is a mistake in the command line.
func (f *Flags) Open(cmd *cobra.Command, opts ...redlock.Option) (locker *redlock.Locker, err error) {
	err = f.Reach(cmd, func(endpoints []string, reached ...pool.Option) (err error) {
		locker, err = redlock.New(endpoints, slices.Concat(f.Options(), []redlock.Option{redlock.WithPool(reached...)}, opts)...)
		return err
	})
	return locker, err
}

// Reach has a function connect to the masters, with options of how they are reached. What that
// rejects is a mistake in the command line.
func (f *Flags) Reach(cmd *cobra.Command, connect func(endpoints []string, reached ...pool.Option) error) error {
	endpoints, places, err := f.find(cmd)
	if err != nil {
		return err
	}
	err = connect(endpoints, f.poolOptions()...)
	if errors.Is(err, pool.ErrEndpoint) {
		return wrongEndpoint(places, endpoints, cli.Reason(err, redlock.ErrInvalid))
	}
	return cli.InvalidUsage(err)
}

// poolOptions returns how the masters are reached.
func (f *Flags) poolOptions() []pool.Option {
	opts := []pool.Option{pool.WithTLSFiles(f.tls)}
	if f.trustMembers {
		opts = append(opts, pool.WithMemberCredentials())
	}
	return opts
}

// askTTL is that of a Locker that acquires nothing.
const askTTL = 10 * time.Second

// AskTimeout bounds an answer: a distant master must not count as one that does not answer.
const AskTimeout = 2 * time.Second

// OpenToAsk returns an operator. By itself, nothing changes at the masters.
func (f *Flags) OpenToAsk(cmd *cobra.Command, opts ...redlock.Option) (*admin.Operator, error) {
	return f.OpenToChange(cmd, append(opts, admin.OnlyLooks())...)
}

// OpenToChange returns an operator, who makes no new master vote.
func (f *Flags) OpenToChange(cmd *cobra.Command, opts ...redlock.Option) (operator *admin.Operator, err error) {
	usual := []redlock.Option{redlock.WithTTL(min(askTTL, f.MaxTTL)), redlock.WithNodeTimeout(AskTimeout)}
	err = f.Reach(cmd, func(endpoints []string, reached ...pool.Option) (err error) {
		operator, err = admin.New(endpoints, slices.Concat(f.Options(), usual, []redlock.Option{redlock.WithPool(reached...)}, opts)...)
		return err
	})
	return operator, err
}

// Options returns what everyone who shares the masters agrees on.
func (f *Flags) Options() []redlock.Option {
	shared := []redlock.Option{redlock.WithKeyPrefix(f.KeyPrefix), redlock.WithMaxTTL(f.MaxTTL)}
	if f.Strict {
		shared = append(shared, redlock.WithQuarantine(redlock.QuarantineStrict))
	}
	return shared
}

// CheckTTL returns a usage error unless locks can have this TTL.
func (f *Flags) CheckTTL(ttl time.Duration) error {
	switch {
	case ttl < cli.MinTTL:
		return cli.Usagef("--ttl: %v is below %v: a command could not be ended in time", ttl, cli.MinTTL)
	case ttl > f.MaxTTL:
		return cli.Usagef("--ttl: %v is above the --max-ttl of %v: give a shorter --ttl, or a longer --max-ttl to everyone who "+
			"shares the masters", ttl, f.MaxTTL)
	default:
		return nil
	}
}

// Dial returns a node for each endpoint, which connects in the background. Close them with
// [CloseAll]. What it rejects is a mistake in the command line.
func (f *Flags) Dial(cmd *cobra.Command, opts ...pool.Option) (nodes []*pool.Node, err error) {
	endpoints, places, err := f.find(cmd)
	if err != nil {
		return nil, err
	}
	opts = append(opts, f.poolOptions()...)
	for i, endpoint := range endpoints {
		node, err := pool.NewNode(endpoint, opts...)
		if err != nil {
			CloseAll(nodes)
			return nil, wrongEndpoint(places, endpoints, fmt.Sprintf("endpoint %d: %v", i+1, err))
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// harmless matches what is shown of a wrong endpoint: it looks like host:port. Anything else may
// have a password in it, in whatever form other programs take one.
var harmless = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\[?[A-Za-z0-9._-]*(:[0-9]{0,5})?$`) })

// wrongEndpoint names the endpoint that the library's text is about, where it was given and, if it
// cannot contain a password, what was typed.
func wrongEndpoint(places, endpoints []string, text string) error {
	var n int
	if _, err := fmt.Sscanf(text, "endpoint %d:", &n); err != nil || n < 1 || n > len(endpoints) {
		return cli.Usagef("%s", text)
	}
	_, why, _ := strings.Cut(text, pool.ErrEndpoint.Error()+": ")
	where, typed := places[n-1], endpoints[n-1]
	if harmless().MatchString(typed) {
		where += fmt.Sprintf(" %q", typed)
	}
	return cli.Usagef("%s: %s", where, why)
}

// Causes says why nodes do not vote, each reason once with the endpoints that have it; empty if all
// vote.
func Causes(nodes []redlock.NodeStats) string {
	var reasons []string
	at := map[string][]string{}
	for i := range nodes {
		n := &nodes[i]
		if admin.Votes(n) {
			continue
		}
		err := cmp.Or(n.Barred, n.Err, errNoAnswer)
		kind := trouble.Of(err)
		why := cli.Cause(kind, err) + kind.Hint()
		if at[why] == nil {
			reasons = append(reasons, why)
		}
		at[why] = append(at[why], n.Endpoint)
	}
	for i, why := range reasons {
		reasons[i] = strings.Join(at[why], ", ") + ": " + why
	}
	return strings.Join(reasons, "; ")
}

var errNoAnswer = errors.New("no answer yet")

// CloseAll closes nodes, all at once: one that hangs takes its time.
func CloseAll(nodes []*pool.Node) {
	var all sync.WaitGroup
	for _, node := range nodes {
		all.Go(func() { _ = node.Close() }) //nolint:errcheck // always nil
	}
	all.Wait()
}
