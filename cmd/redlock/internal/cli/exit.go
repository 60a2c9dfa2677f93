package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/internal/trouble"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// Exit statuses. From 64 on they mean what they mean in sysexits.h and the shells, so `redlock run`
// can be told from most commands that it runs.
const (
	ExitFailed        = 1   // the command did not achieve what it was asked for
	ExitUsage         = 64  // the command line makes no sense; nothing was done
	ExitNoQuorum      = 69  // too few masters answered
	ExitLost          = 70  // the lock was lost before the end
	ExitTaken         = 75  // somebody else holds the lock
	ExitMisnamed      = 78  // the name of the lock is that of a key that can be no lock
	ExitNotExecutable = 126 // the command exists and cannot be executed
	ExitNotFound      = 127 // no such command
	ExitSignal        = 128 // plus the number of the signal
)

const (
	// DefaultTTL is longer than the library's: a command is not a request. The lock outlasts an
	// outage of the masters that is shorter than about half of the TTL.
	DefaultTTL = 30 * time.Second

	// MinTTL leaves enough time to start, signal and kill a process.
	MinTTL = time.Second
)

// usageError is a mistake of the person who typed the command.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// Usagef returns an error with the status [ExitUsage].
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// InvalidUsage makes a usage error of an argument that the library rejects. Other errors, and nil,
// stay as they are.
func InvalidUsage(err error) error {
	if errors.Is(err, redlock.ErrInvalid) {
		return Usagef("%s", Reason(err, redlock.ErrInvalid))
	}
	return err
}

// flagError is the error for a flag that cobra cannot parse. Cobra quotes single-letter flags along
// with what follows them.
func flagError(cmd *cobra.Command, err error) error {
	if MayHoldPassword(err.Error()) {
		return Usagef("a flag is wrong; it is not shown because it may contain a password")
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		switch f := invalid.GetFlag(); f.Value.Type() {
		case "duration":
			return Usagef("--%s: %q is no duration: give it with a unit, as 30s, 5m or 4h", f.Name, invalid.GetValue())
		case "bool":
			return Usagef("--%s takes no value", f.Name)
		}
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "" {
		return Usagef("unknown flag -%s", unknown.GetSpecifiedName()) // a value may follow it
	}
	if args := cmd.Flags().Args(); !cmd.HasParent() && cmd.Args != nil && len(args) > 0 {
		return cmd.Args(cmd, args) // a command that does not exist has no flags either
	}
	if unknown != nil {
		if near := nearFlags(cmd, unknown.GetSpecifiedName()); len(near) > 0 {
			return Usagef("%w; did you mean %s?", err, strings.Join(near, " or "))
		}
	}
	return usageError{err}
}

// nearFlags returns the flags of a command whose name is like this one, by cobra's measure for
// commands.
func nearFlags(cmd *cobra.Command, name string) (near []string) {
	flags := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	for _, flag := range flags.SuggestionsFor(name) {
		near = append(near, "--"+flag)
	}
	return near
}

// CheckName returns a usage error for the name of a lock that is an endpoint: it was meant for
// --nodes.
func CheckName(name string) error {
	for _, scheme := range []string{"redis://", "rediss://", "unix://"} {
		if strings.HasPrefix(strings.ToLower(name), scheme) {
			return Usagef("the name of a lock is wanted; give the endpoints of masters to --nodes")
		}
	}
	return nil
}

// MayHoldPassword reports whether a text may be or contain an endpoint with a password.
func MayHoldPassword(text string) bool {
	return strings.Contains(text, "://") || strings.Contains(text, "@")
}

// StatusError ends the program with a status of its own.
type StatusError struct {
	Status int
	Err    error // nil: everything has been printed
}

// Error returns the text of Err, or names the status.
func (e StatusError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Status)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e StatusError) Unwrap() error { return e.Err }

// ExitStatus returns the exit status for an error.
func ExitStatus(err error) int {
	var usage usageError
	var status StatusError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		return ExitUsage
	case errors.As(err, &status):
		return status.Status
	default:
		return ExitFailed
	}
}

// Explain returns the text of an error for people. Where masters gave reasons, each has a line. A
// master that gave none because the request was cut short may have one in nodes.
func Explain(err error, nodes ...redlock.NodeStats) string {
	return prose.Readable(explain(err, nodes))
}

func explain(err error, nodes []redlock.NodeStats) string {
	text := WithoutPrefix(err)
	var failure *redlock.QuorumError
	ok := errors.As(err, &failure)
	if !ok || failure.Error() != err.Error() {
		return text
	}
	reasons := slices.Clone(failure.Nodes) // which are the error's own
	explained := map[string]bool{}
	for _, node := range reasons {
		explained[node.Endpoint] = true
	}
	for _, n := range nodes {
		if !explained[n.Endpoint] && n.Barred != nil {
			reasons = append(reasons, &redlock.NodeError{Endpoint: n.Endpoint, Err: n.Barred})
		}
	}
	// A quarantine ends by itself, or when the masters are there that cannot be reached.
	slices.SortStableFunc(reasons, func(a, b *redlock.NodeError) int { return cmp.Compare(waits(a), waits(b)) })
	lines := []string{headOf(failure, nodes)}
	for _, reason := range reasons {
		lines = append(lines, remedied(reason))
	}
	return strings.Join(lines, "\n  ")
}

// waits is 1 for a master that will vote in time, and 0 for one that will not.
func waits(reason error) int {
	if errors.Is(reason, pool.ErrQuarantined) {
		return 1
	}
	return 0
}

// remedied returns the text of a master's reason. One in quarantine that names no remedy gets one.
func remedied(reason error) string {
	text := reason.Error()
	switch {
	case waits(reason) == 0 || strings.Contains(text, "`redlock "):
		return text
	case strings.Contains(text, "quarantined for "):
		return text + " (wait that long, or see `redlock doctor`)"
	default:
		return text + " (see `redlock doctor`)"
	}
}

// headOf returns the text of a failure without those of the masters. Those that vote need not have
// answered the request that was cut short, so it tells nobody how many granted that.
func headOf(failure *redlock.QuorumError, nodes []redlock.NodeStats) string {
	votes := admin.CountVotes(nodes)
	if failure.Op == "ready" && len(nodes) > 0 && votes < failure.Need {
		return "no quorum: " + Votes(votes, len(nodes), failure.Need)
	}
	head := *failure
	head.Nodes = nil
	return WithoutPrefix(&head)
}

// Reason returns the text of an error without that of the sentinel that it wraps.
func Reason(err, sentinel error) string {
	return withoutPrefix(strings.TrimPrefix(err.Error(), sentinel.Error()+": "))
}

// Cause returns the text of an error of this kind, of a master. What it means comes first.
func Cause(k trouble.Kind, err error) string {
	text := err.Error()
	for _, sentinel := range []error{pool.ErrRefused, pool.ErrAuth, pool.ErrUntrusted, pool.ErrCertificate} {
		text = strings.TrimPrefix(text, sentinel.Error()+": ")
	}
	if text = withoutPrefix(text); k != "" && k.Row().Says != "" {
		return k.Row().Says + ": " + text
	}
	return text
}

// WithoutPrefix returns the text of an error without the prefix of the library: messages on stderr
// have the same one already.
func WithoutPrefix(err error) string { return withoutPrefix(err.Error()) }

func withoutPrefix(text string) string { return strings.TrimPrefix(text, "redlock: ") }

// Misnamed returns an error with the status [ExitMisnamed] if a quorum of masters has something
// under a key that can be no lock; nil if not. No lock of that name can be acquired, however long
// one waits.
func Misnamed(key string, status *admin.Status) error {
	lasting, others := 0, 0
	for _, n := range status.Nodes {
		switch {
		case trouble.Of(n.Err) == trouble.NoString:
			others++
		case n.Err == nil && n.TTL < 0:
			lasting++
		}
	}
	if lasting+others < max(status.Quorum, 1) {
		return nil
	}
	is := prose.Lasting
	if others > lasting {
		is = prose.NoString
	}
	return StatusError{Status: ExitMisnamed, Err: errors.New(prose.NoLock(key, is) + "; " + prose.UseAnother)}
}

// Votes says how many masters vote: 1 of 3 masters votes, 2 are needed.
func Votes(votes, masters, need int) string {
	vote := "vote"
	if votes == 1 || masters == 1 {
		vote = "votes"
	}
	return fmt.Sprintf("%d of %s %s, %s", votes, prose.Plural(masters, "master"), vote, prose.Needed(need))
}
