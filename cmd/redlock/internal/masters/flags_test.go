package masters

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/pool"
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

// A redlock in the command has the variables alone, and must come to what we have by both.
func TestFilesOfFlagsAndOfTheEnvironmentAreHandedOnTogether(t *testing.T) {
	file := func(name string) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		return path
	}
	env, given := pool.TLSFiles{Cert: file("c"), Key: file("k"), CA: file("a")}, pool.TLSFiles{Cert: file("c"), Key: file("k"), CA: file("a")}
	for name, c := range map[string]struct {
		args []string
		want pool.TLSFiles
	}{
		"variables alone":       {nil, env},
		"a certificate":         {[]string{"--cert", given.Cert, "--key", given.Key}, pool.TLSFiles{Cert: given.Cert, Key: given.Key, CA: env.CA}},
		"an authority":          {[]string{"--cacert", given.CA}, pool.TLSFiles{Cert: env.Cert, Key: env.Key, CA: given.CA}},
		"masters":               {[]string{"--nodes", "rediss://a:1"}, pool.TLSFiles{}},
		"masters and authority": {[]string{"--nodes", "rediss://a:1", "--cacert", given.CA}, pool.TLSFiles{CA: given.CA}},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range map[string]string{
				Variable: "rediss://env:1", FileVariable: "", certVariable: env.Cert, keyVariable: env.Key, caVariable: env.CA, trustVariable: "",
			} {
				t.Setenv(variable, value)
			}
			find := func(args ...string) (f Flags, handed []string) {
				cmd := &cobra.Command{}
				f.Add(cmd)
				require.NoError(t, cmd.ParseFlags(args))
				handed = f.Environment(cmd)
				_, _, err := f.find(cmd)
				require.NoError(t, err)
				return f, handed
			}
			outer, handed := find(c.args...)
			assert.Equal(t, c.want, outer.tls)
			for _, variable := range handed {
				name, value, _ := strings.Cut(variable, "=")
				t.Setenv(name, value)
			}
			inner, _ := find()
			assert.Equal(t, c.want, inner.tls, "%q", handed)
		})
	}
}
