package versus

import (
	"context"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/redquorum/redquorum/bench/versus/figures"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// environment returns what the measurement runs on.
func environment(t *testing.T) figures.Environment {
	t.Helper()
	info, err := redistest.Start(t, 1)[0].Do("INFO", "server")
	if err != nil {
		t.Fatal(err)
	}
	return figures.Environment{
		CPUs:     runtime.NumCPU(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Go:       runtime.Version(),
		Server:   serverVersion(string(info.([]byte))),
		Commit:   commit(t.Context()),
	}
}

// serverVersion returns the name and version that INFO has.
func serverVersion(info string) string {
	name, version := "Redis", ""
	for line := range strings.Lines(info) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), ":"); key {
		case "redis_version":
			if version == "" {
				version = value
			}
		case "valkey_version":
			name, version = "Valkey", value
		}
	}
	return strings.TrimSpace(name + " " + version)
}

// commit returns the short hash of the library, or "" if git does not know it.
func commit(ctx context.Context) string {
	const length = "--abbrev=12"
	hash, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--exclude=*", length).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(hash))
}

func TestVersionIsThatOfTheServer(t *testing.T) {
	for info, want := range map[string]string{
		"# Server\r\nredis_version:7.0.15\r\nos:Linux\r\n":                                     "Redis 7.0.15",
		"# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.0.0\r\nx:y": "Valkey 9.0.0",
		"": "Redis",
	} {
		if got := serverVersion(info); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
