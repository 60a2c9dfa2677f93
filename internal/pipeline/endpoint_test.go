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
		" \tredis://a:1/\r\n":                    {endpoint{network: "tcp", address: "a:1", host: "a"}, "redis://a:1"},
		"\ufeffa:1\u200b\u00a0":                  {endpoint{network: "tcp", address: "a:1", host: "a"}, "redis://a:1"},
		"a:06379":                                {endpoint{network: "tcp", address: "a:6379", host: "a"}, "redis://a:6379"},
		"[0:0:0:0:0:0:0:1]:1":                    {endpoint{network: "tcp", address: "[::1]:1", host: "::1"}, "redis://[::1]:1"},
		"redis://a/2/":                           {endpoint{network: "tcp", address: "a:6379", host: "a", database: 2}, "redis://a:6379/2"},
		"redis://:a,b;c@h":                       {endpoint{network: "tcp", address: "h:6379", host: "h", password: "a,b;c"}, "redis://h:6379"},
		"rediss://10.0.0.5?servername=A.example": {endpoint{network: "tcp", address: "10.0.0.5:6379", host: "10.0.0.5", tls: true, serverName: "a.example"}, "rediss://10.0.0.5:6379"},
		"unix:///run/a@b, c.sock":                {endpoint{network: "unix", address: "/run/a@b, c.sock"}, "unix:///run/a@b,%20c.sock"},
		"rediss://a?cacert=/b@c":                 {endpoint{network: "tcp", address: "a:6379", host: "a", tls: true, files: TLSFiles{CA: "/b@c"}}, "rediss://a:6379"},
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
	"redis://:hun/hunter2@host":         "not percent-encoded",
	"redis://:pass#hunter2@host":        "not percent-encoded",
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
	"ho st:6379":                        "a space",
	":6379":                             "no host",

	"redis://a:1,redis://:hunter2@b:2":     "several endpoints in one",
	"redis://a:1/0,redis://:hunter2@b:2/0": "several endpoints in one",
	"redis://a:1;rediss://:hunter2@b:2":    "several endpoints in one",
	"redis://a:1\nredis://:hunter2@b:2":    "several endpoints in one",
	"unix:///a.sock,unix:///b.sock":        "several endpoints in one",
	"redis://:hunter2@a:1,b:2":             "several endpoints in one",
	"a:1,b:2":                              "several endpoints in one",
	"a:1 b:2":                              "several endpoints in one",
	"a:1;b:2":                              "several endpoints in one",
	`"redis://:hunter2@a:1"`:               "quotes",
	"'a:1":                                 "quotes",
	"“redis://:hunter2@a:1”":               "quotes",
	`["redis://:hunter2@a:1"]`:             "quotes or brackets",
	"<redis://:hunter2@a:1>":               "brackets",
	"REDLOCK_NODES=redis://:hunter2@a:1":   "without NAME=",
	"export NODES='redis://:hunter2@a:1'":  "without NAME=",
	"redis://:hunter2 x@a:1":               "a space is %20",
	"redis://a\u200b.example:1":            "invisible",
	"redis://:hun\nter2@a:1":               "line end",
	"redis://me:123#hunter2@a:1":           "# is %23",
	"redis://me:123?hunter2@a:1":           "? is %3F",
	"redis://me:123/hunter2@a:1":           "/ is %2F",
	"me:hunter2@a:1":                       "in front of a user or a password stands redis://",
	"a:1/0":                                "with a database it is redis://",
	"redis:/:hunter2@a:1":                  "two slashes",
	"unix:/run/redis.sock":                 "two slashes",
	"unix://run/redis.sock":                "three slashes",
	"/run/redis.sock":                      "unix:///path",
	"fe80::1:6379":                         "brackets",
	"valkey://:hunter2@a:1":                "for valkey://",
	"redis://a:70000":                      "1 to 65535",
	"a:-1":                                 "1 to 65535",
	"a:":                                   "1 to 65535",
	"6379":                                 "a number alone",
	"rediss://a?servername=hunter2!":       "the servername is neither",
	"rediss://a?servername=":               "servername",
	"redis://a?servername=a.example":       "query parameters",
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
	f.Add("rediss://host?servername=a")
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
		again.username, again.password, again.files, again.serverName = e.username, e.password, e.files, e.serverName // not shown
		if again != e {
			t.Fatalf("%q is shown as %q, which is another: %+v, not %+v", text, e.String(), again, e)
		}
	})
}
