package pipeline

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseEndpoint(t *testing.T) {
	for text, want := range map[string]struct {
		endpoint endpoint
		shown    string
	}{
		"localhost:6379":                         {endpoint{network: "tcp", address: "localhost:6379", host: "localhost"}, "redis://localhost:6379"},
		"Localhost":                              {endpoint{network: "tcp", address: "localhost:6379", host: "localhost"}, "redis://localhost:6379"},
		"[::1]:7000":                             {endpoint{network: "tcp", address: "[::1]:7000", host: "::1"}, "redis://[::1]:7000"},
		"redis://A.example":                      {endpoint{network: "tcp", address: "a.example:6379", host: "a.example"}, "redis://a.example:6379"},
		"redis://a/":                             {endpoint{network: "tcp", address: "a:6379", host: "a"}, "redis://a:6379"},
		"redis://:secret@a:1/3":                  {endpoint{network: "tcp", address: "a:1", host: "a", password: "secret", database: 3}, "redis://a:1/3"},
		"rediss://me:s%40cret@b:6380":            {endpoint{network: "tcp", address: "b:6380", host: "b", tls: true, username: "me", password: "s@cret"}, "rediss://b:6380"},
		"rediss://b?cert=%2Fc&key=k&cacert=a%3F": {endpoint{network: "tcp", address: "b:6379", host: "b", tls: true, files: TLSFiles{"/c", "k", "a?"}}, "rediss://b:6379"},
		"REDIS://a:1":                            {endpoint{network: "tcp", address: "a:1", host: "a"}, "redis://a:1"},
		"unix:///run/redis.sock":                 {endpoint{network: "unix", address: "/run/redis.sock"}, "unix:///run/redis.sock"},
		"unix://me:secret@/r.sock?db=15":         {endpoint{network: "unix", address: "/r.sock", username: "me", password: "secret", database: 15}, "unix:///r.sock?db=15"},
	} {
		got, err := parseEndpoint(text)
		require.NoError(t, err, text)
		assert.Equal(t, want.endpoint, got, text)
		assert.Equal(t, want.shown, got.String(), text)
	}
}

// In each of these, the word hunter2 stands where a password may have ended up.
var badEndpoints = map[string]string{
	"":                                  "empty",
	"user:hunter2@host:6379":            "neither host:port nor",
	"redis://user:hunter2@":             "no host",
	"redis://:hunter2@host:port":        "not a valid URL",
	"redis://:hunter2@host:0":           "port",
	"redis://:hunter2@host:65536":       "port",
	"redis://:hun%zzhunter2@host":       "not a valid URL",
	"redis://:hun/hunter2@host":         "not a valid URL",
	"redis://:pass#hunter2@host":        "not a valid URL",
	"redis://hunter2@host":              "user without a password",
	"redis://hunter2:@host":             "user without a password",
	"http://:hunter2@host":              "scheme",
	"hunter2://host":                    "scheme",
	"redis://:hunter2@host/x":           "database",
	"redis://:hunter2@host/1/2":         "database",
	"redis://:hunter2@host/-1":          "database",
	"redis://:hunter2@host/99999999999": "database",
	"redis://:hunter2@host?db=1":        "query",
	"redis://:hunter2@host?cert=a":      "query",
	"rediss://host?cert=hunter2":        "needs cert and key",
	"rediss://host?key=hunter2":         "needs cert and key",
	"rediss://host?cert=hunter2&key=":   "cert, key and cacert",
	"rediss://host?hunter2=a":           "cert, key and cacert",
	"rediss://host?cacert=a&cacert=b":   "cert, key and cacert",
	"redis://:hunter2@host#x":           "fragment",
	"unix://hunter2/path":               "unix:///path",
	"unix://":                           "unix:///path",
	"unix:///":                          "unix:///path",
	"unix:///a?user=hunter2":            "db",
	"unix:///a?db=1&db=2":               "db",
	"unix:///a?db=hunter2":              "database",
	"ho st:6379":                        "neither host:port nor",
	":6379":                             "no host",
}

func TestBadEndpointSaysWhatIsWrongAndShowsNoPassword(t *testing.T) {
	for text, want := range badEndpoints {
		_, err := parseEndpoint(text)
		require.ErrorIs(t, err, ErrEndpoint, text)
		assert.ErrorContains(t, err, want, text)
		assert.NotContains(t, err.Error(), "hunter2", text)
		_, err = NewNode(text)
		assert.ErrorIs(t, err, ErrEndpoint, text)
	}
}

func FuzzParseEndpoint(f *testing.F) {
	for text := range badEndpoints {
		f.Add(text)
	}
	f.Add("rediss://user:hunter2@[::1]:6379/7")
	f.Add("rediss://host?cacert=a")
	f.Fuzz(func(t *testing.T, text string) {
		e, err := parseEndpoint(text)
		if err != nil {
			if len(text) > 60 && strings.Contains(err.Error(), text) {
				t.Fatalf("the error repeats the endpoint: %v", err)
			}
			return
		}
		if e.password != "" && e.network == "tcp" && len(e.password) > 8 && !strings.Contains(e.address, strings.ToLower(e.password)) &&
			strings.Contains(e.String(), e.password) {
			t.Fatalf("%q shows its password: %s", text, e.String())
		}
		again, err := parseEndpoint(e.String())
		if err != nil {
			t.Fatalf("%q is shown as %q, which is refused: %v", text, e.String(), err)
		}
		again.username, again.password, again.files = e.username, e.password, e.files // not shown
		if again != e {
			t.Fatalf("%q is shown as %q, which is another: %+v, not %+v", text, e.String(), again, e)
		}
	})
}
