// Package compose_test looks at compose.yaml, and plays it on local servers.
package compose_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/child"
	"github.com/redquorum/redquorum/internal/proof/servers/cluster"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

func TestMain(m *testing.M) { cluster.Main(m) }

// load reads compose.yaml as docker compose does, and checks it by the schema of Compose.
func load(t *testing.T) *types.Project {
	t.Helper()
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: absolute(t, "."), ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml"}}, Environment: types.Mapping{},
	})
	require.NoError(t, err)
	return project
}

func TestOnlyThePageIsPublishedAndOnlyToThisMachine(t *testing.T) {
	project := load(t)
	assert.ElementsMatch(t, []string{"a", "b", "c", "serve", "example", "secrets"}, project.ServiceNames())
	for name, service := range project.Services {
		for _, port := range service.Ports {
			assert.Equal(t, "serve", name)
			assert.Equal(t, "127.0.0.1:8700", port.HostIP+":"+port.Published)
		}
		for _, volume := range service.Volumes {
			if volume.Type == types.VolumeTypeBind {
				assert.FileExists(t, volume.Source, name)
			}
		}
		if name != "secrets" {
			assert.Equal(t, types.ServiceConditionCompletedSuccessfully, service.DependsOn["secrets"].Condition, name)
		}
	}
}

// play is the services as processes of this machine.
type play struct {
	t       *testing.T
	project *types.Project
	secrets string // the volume
	command string // redlock
	hosts   []string
}

// words are the command of a service, with paths of this machine.
func (p *play) words(service string) (words []string) {
	for _, word := range p.project.Services[service].Command {
		words = append(words, strings.ReplaceAll(word, "/secrets", p.secrets))
	}
	return words
}

// master starts a server with the file and the users of a master.
func (p *play) master(name string) {
	p.t.Helper()
	words := p.words(name)
	require.Equal(p.t, []string{"valkey-server", "/etc/valkey.conf"}, words[:2])
	volumes := p.project.Services[name].Volumes
	i := slices.IndexFunc(volumes, func(v types.ServiceVolumeConfig) bool { return v.Target == words[1] })
	conf, err := os.ReadFile(volumes[i].Source)
	require.NoError(p.t, err)
	server := redistest.StartOne(p.t, redistest.WithArgs(slices.Concat(redistest.Directives(string(conf), "dir", "aclfile"), words[2:])...))
	p.hosts = append(p.hosts, "@"+name+":6379", "@"+server.Addr())
}

// redlock starts the command as a service does.
func (p *play) redlock(words ...string) {
	p.t.Helper()
	command := exec.Command(p.command, words...)
	command.Stderr = io.Discard
	child.Start(p.t, command)
}

var announced = regexp.MustCompile(`any user name, password (\w+)`)

// From nothing to a page with three masters and a lock that is held.
func TestThePageShowsALockOnThreeMasters(t *testing.T) {
	redistest.Require(t)
	p := play{t: t, project: load(t), secrets: t.TempDir(), command: filepath.Join(t.TempDir(), "redlock")}
	build := exec.Command("go", "build", "-buildvcs=false", "-o", p.command, "./cmd/redlock")
	build.Dir = "../.."
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	script := strings.NewReplacer("/make", "'"+absolute(t, "../secrets")+"'", "/secrets", "'"+p.secrets+"'").Replace(p.project.Services["secrets"].Command[0])
	out, err = exec.Command("sh", "-euc", script).CombinedOutput()
	require.NoError(t, err, "%s", out)
	password := announced.FindSubmatch(out)
	require.NotNil(t, password, "%s", out)
	for _, name := range []string{"a", "b", "c"} {
		p.master(name)
	}
	for _, who := range []string{"clients", "operator"} {
		file := filepath.Join(p.secrets, "made", who, "nodes")
		nodes, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, []byte(strings.NewReplacer(p.hosts...).Replace(string(nodes))), 0o600))
	}

	example := p.words("example")
	require.Equal(t, "/redlock", example[0])
	p.redlock(example[1:]...)
	address := redistest.FreeAddr(t)
	serve := p.words("serve")
	for i, word := range serve {
		serve[i] = strings.Replace(word, "0.0.0.0:8700", address, 1)
	}
	require.Contains(t, serve, "--listen="+address)
	p.redlock(serve...)
	get := func(password string) (status int, page string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/lock?name=example", nil)
		require.NoError(t, err)
		r.SetBasicAuth("anybody", password)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(body)
	}
	cluster.Eventually(t, time.Minute, func() string {
		status, page := get(string(password[1]))
		if status == http.StatusOK && strings.Contains(page, "3 of 3 masters have its value") {
			return ""
		}
		return fmt.Sprintf("a held lock: %d %s", status, page)
	})
	status, _ := get("a wrong password")
	assert.Equal(t, http.StatusUnauthorized, status)
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	require.NoError(t, err)
	return path
}
