package masters

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEndpointsComeFromFlagsThenFromTheEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nodes")
	require.NoError(t, os.WriteFile(file, []byte("# the masters\na:1 # one\n\n  b:2, c:3,\t#two\r\n  # c\n"), 0o600))
	for _, name := range []string{FileVariable, certVariable, keyVariable, caVariable, trustVariable} {
		t.Setenv(name, "")
	}
	t.Setenv(Variable, "env:1,env:2")
	for _, c := range []struct{ args, want []string }{
		{nil, []string{"env:1", "env:2"}},
		{[]string{"--nodes", "a:1, b:2", "--nodes", "redis://:p%2Cw@c:3"}, []string{"a:1", "b:2", "redis://:p%2Cw@c:3"}},
		{[]string{"--nodes-file", file}, []string{"a:1", "b:2", "c:3"}},
	} {
		var f Flags
		cmd := &cobra.Command{}
		f.Add(cmd)
		require.NoError(t, cmd.ParseFlags(c.args))
		endpoints, _, err := f.find(cmd)
		require.NoError(t, err)
		assert.Equal(t, c.want, endpoints)
	}
	assert.Nil(t, Split(nil))
	assert.Equal(t, []string{"a:1", "b:2", "c:3", "d:4"}, Split([]string{"\ta:1,\r\n b:2 \n\nc:3 , d:4\n"}))
	assert.Equal(t, []string{"a:1", "", "b:2", ""}, Split([]string{"a:1,,b:2,"}), "which is refused")
}
