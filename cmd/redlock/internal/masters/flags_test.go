package masters

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/spf13/cobra"
)

// endpointsOf parses flags as commands do.
func endpointsOf(t *testing.T, args ...string) ([]string, error) {
	t.Helper()
	var f Flags
	cmd := &cobra.Command{}
	f.Add(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	endpoints, _, err := f.find(cmd)
	return endpoints, err
}

func TestEndpointsComeFromFlagsThenFromTheEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nodes")
	if err := os.WriteFile(file, []byte("# the masters\na:1 # one\n\n  b:2, c:3\t#two\r\n  # c\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(Variable, "env:1,env:2")
	for _, c := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"env:1", "env:2"}},
		{[]string{"--nodes", "a:1, b:2", "--nodes", "c:3"}, []string{"a:1", "b:2", "c:3"}},
		{[]string{"--nodes-file", file}, []string{"a:1", "b:2", "c:3"}},
	} {
		if got, err := endpointsOf(t, c.args...); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, %v; want %q", c.args, got, err, c.want)
		}
	}
}

func TestNodesAreRepeatedOrSeparatedByCommas(t *testing.T) {
	got := Split([]string{"a:1, b:2", "redis://:p%2Cw@c:3"})
	if want := []string{"a:1", "b:2", "redis://:p%2Cw@c:3"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Split(nil); got != nil {
		t.Errorf("got %q of no flag, want nil", got)
	}
}
