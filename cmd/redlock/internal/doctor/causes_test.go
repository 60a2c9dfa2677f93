package doctor

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

func TestCertificatesAreNamed(t *testing.T) {
	t.Parallel()
	authority, dir := redistest.NewAuthority(t), t.TempDir()
	cert, key := filepath.Join(dir, "client.pem"), filepath.Join(dir, "client.key")
	authority.Issue(time.Hour, cert, key)
	server, addr := authority.StartTLS(10*24*time.Hour+time.Minute, durable)
	clitest.Admit(t, server.URL())
	url := "rediss://" + addr + "?cacert=" + authority.File
	_, d, text := consult(t, []string{url})
	requireFinding(t, &d, text, 0, severe, "certificate", nil, "it wants another client certificate than ours, or any")
	assert.Contains(t, d.Nodes[0].Findings[0].Do, "--cert and --key")

	_, d, text = consult(t, []string{"rediss://" + addr}, "--cacert", authority.File, "--cert", cert, "--key", key)
	require.Equal(t, []string{"certificate", "certificate"}, checksOf(d.Nodes[0].Findings), text)
	assert.Contains(t, d.Nodes[0].Findings[0].What, "its certificate ends in 10 days, at 20")
	assert.Contains(t, d.Nodes[0].Findings[1].What, "our client certificate ends in 0 days")
	_, d, text = consult(t, []string{url + "&cert=" + cert + "&key=" + key})
	assert.Len(t, d.Nodes[0].Findings, 2, text)
	status, _, stderr := command([]string{server.URL()}, "--cert", cert, "--key", key)
	assert.NotZero(t, status)
	assert.Contains(t, stderr, "are for rediss:// endpoints")
}

func TestPersistenceThatChangedIsNamed(t *testing.T) {
	t.Parallel()
	servers, urls := startMet(t, 3, redistest.WithArgs("--appendonly", "yes", "--appendfsync", "everysec"))
	require.NoError(t, servers[0].Restart())
	_, err := servers[1].Do("CONFIG", "SET", "appendfsync", "always")
	require.NoError(t, err)
	_, d, text := consult(t, urls)
	at := slices.Index(checksOf(d.Nodes[0].Findings), "quarantine")
	require.GreaterOrEqual(t, at, 0, text)
	assert.Contains(t, d.Nodes[0].Findings[at].What, "ago, with appendfsync everysec: it may have lost the last second")
	requireFinding(t, &d, text, 1, note, "persistence", nil, "appendfsync is always, and was not when its memory began")
}

func TestMastersOnOneHostAreNamed(t *testing.T) {
	on := func(hosts ...string) (all []facts) {
		for _, host := range hosts {
			all = append(all, facts{endpoint: "redis://" + host + ":6379"})
		}
		return all
	}
	assert.Empty(t, checkHosts(on("a", "b", "c")))
	assert.Empty(t, checkHosts(on("a", "a", "b", "c", "d")), "two of five may fail")
	assert.Empty(t, checkHosts(on("127.0.0.1", "127.0.0.1", "127.0.0.1")), "a trial")
	assert.Contains(t, checkHosts(on("a", "a", "b"))[0].What, "2 masters are on the host a")
}
