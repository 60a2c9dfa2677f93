package pipeline

import (
	"context"
	"crypto/tls"
	"net"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// listener is a server that ends each connection, and notes at which address it was reached, with
// which credentials.
type listener struct {
	heard  atomic.Pointer[chan string]
	config *tls.Config
	secure map[string]bool // the addresses with TLS
}

var auth = regexp.MustCompile(`AUTH(\r\n\$\d+\r\n(user|other))?\r\n\$\d+\r\n(\w+)\r\n`)

func (r *listener) dial(_ context.Context, _, address string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	tell := *r.heard.Load()
	go func() {
		defer theirs.Close()
		var c net.Conn = theirs
		heard := ""
		if r.secure[address] {
			c = tls.Server(theirs, r.config)
		}
		first := make([]byte, 1<<16)
		n, err := c.Read(first)
		if err != nil {
			heard = err.Error()
		}
		if secured, is := c.(*tls.Conn); is && len(secured.ConnectionState().PeerCertificates) > 0 {
			heard += "certificate "
		}
		if words := auth.FindSubmatch(first[:n]); words != nil {
			heard += string(words[2]) + ":" + string(words[3])
		}
		select {
		case tell <- address + " " + heard:
		default: // it dials again
		}
	}()
	return ours, nil
}

// listen returns what the next connections are told in.
func (r *listener) listen() chan string {
	heard := make(chan string, 1)
	r.heard.Store(&heard)
	return heard
}

func TestCredentialsGoWhereTheListLeads(t *testing.T) {
	a, dir := redistest.NewAuthority(t), t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	a.Issue(time.Hour, file("cert"), file("key"))
	server, err := tls.LoadX509KeyPair(file("cert"), file("key"))
	require.NoError(t, err)
	r := &listener{
		config: &tls.Config{Certificates: []tls.Certificate{server}, ClientAuth: tls.RequestClientCert},
		secure: map[string]bool{"a:6380": true, "b:6380": true, "[2001:db8::1]:6380": true},
	}
	files := "?cert=" + file("cert") + "&key=" + file("key")
	provider := WithCredentials(func(_ context.Context, endpoint string) (string, string, error) { return "user", "provided", nil })
	withFiles := WithTLSFiles(TLSFiles{Cert: file("cert"), Key: file("key")})
	withConfig := WithTLSConfig(&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{server}})
	trust := WithMemberCredentials()
	const never = "never dialed"
	for name, test := range map[string]struct {
		list   []string
		opts   []Option
		member string
		found  string // what it hears if the masters name it
		named  string // if the caller does; refused if empty
	}{
		"another host":                          {[]string{"redis://user:secret@a"}, nil, "redis://b", never, "b:6379 user:secret"},
		"another host, trusted":                 {[]string{"redis://user:secret@a"}, []Option{trust}, "redis://b", "b:6379 user:secret", "b:6379 user:secret"},
		"another host, no credentials":          {[]string{"redis://a"}, nil, "redis://b", "b:6379 ", "b:6379 "},
		"another port":                          {[]string{"redis://:secret@a"}, nil, "redis://a:7000", "a:7000 :secret", "a:7000 :secret"},
		"upper case":                            {[]string{"redis://:secret@node-A.example"}, nil, "redis://NODE-a.Example:7000", "node-a.example:7000 :secret", "node-a.example:7000 :secret"},
		"a name that only ends like one":        {[]string{"redis://:secret@a.example"}, nil, "redis://evil-a.example", never, "evil-a.example:6379 :secret"},
		"a name that only begins like one":      {[]string{"redis://:secret@a"}, nil, "redis://a.evil", never, "a.evil:6379 :secret"},
		"a name with a dot at its end":          {[]string{"redis://:secret@a"}, nil, "redis://a.", never, "a.:6379 :secret"},
		"an address with another one in it":     {[]string{"redis://:secret@127.0.0.1"}, nil, "redis://127.0.0.11", never, "127.0.0.11:6379 :secret"},
		"a name for an address":                 {[]string{"redis://:secret@127.0.0.1"}, nil, "redis://localhost", never, "localhost:6379 :secret"},
		"IPv6 in another form":                  {[]string{"redis://:secret@[2001:DB8:0::1]:7000"}, nil, "redis://[2001:db8::1]", "[2001:db8::1]:6379 :secret", "[2001:db8::1]:6379 :secret"},
		"IPv4 as IPv6":                          {[]string{"redis://:secret@10.0.0.1"}, nil, "redis://[::ffff:10.0.0.1]", "[::ffff:10.0.0.1]:6379 :secret", "[::ffff:10.0.0.1]:6379 :secret"},
		"those of the host":                     {[]string{"redis://user:secret@a", "redis://other:own@b"}, nil, "redis://b:7000", "b:7000 other:own", "b:7000 other:own"},
		"a host that was given none":            {[]string{"redis://user:secret@a", "redis://b"}, nil, "redis://b:7000", "b:7000 ", "b:7000 "},
		"trusted, those of the host":            {[]string{"redis://user:secret@a", "redis://other:own@b"}, []Option{trust}, "redis://b:7000", "b:7000 other:own", "b:7000 other:own"},
		"a password that the masters name":      {[]string{"redis://user:secret@a"}, nil, "redis://other:own@b", never, "b:6379 other:own"},
		"a provider of passwords":               {[]string{"redis://a"}, []Option{provider}, "redis://b", never, "b:6379 user:provided"},
		"a provider, another port":              {[]string{"redis://a"}, []Option{provider}, "redis://a:7000", "a:7000 user:provided", "a:7000 user:provided"},
		"a socket":                              {[]string{"unix://:secret@/a"}, nil, "unix:///b", never, "/b :secret"},
		"a socket beside hosts":                 {[]string{"redis://:secret@a"}, nil, "unix:///a", never, "/a :secret"},
		"a host beside sockets":                 {[]string{"unix://:secret@/a"}, nil, "redis://a", never, "a:6379 :secret"},
		"from TLS":                              {[]string{"rediss://user:secret@a:6380"}, nil, "redis://a", never, ""},
		"from TLS, trusted":                     {[]string{"rediss://user:secret@a:6380"}, []Option{trust}, "redis://a", never, ""},
		"from TLS, a provider":                  {[]string{"rediss://a:6380"}, []Option{provider, trust}, "redis://other:own@b", never, ""},
		"from TLS, named with a password":       {[]string{"rediss://user:secret@a:6380"}, nil, "redis://other:own@b", never, "b:6379 other:own"},
		"from TLS to a socket":                  {[]string{"rediss://user:secret@a:6380"}, []Option{trust}, "unix:///a", never, ""},
		"from TLS somewhere in the list":        {[]string{"redis://user:secret@a", "rediss://user:secret@b:6380"}, []Option{trust}, "redis://a:7000", never, ""},
		"from TLS without credentials":          {[]string{"rediss://a:6380"}, nil, "redis://a", never, "a:6379 "},
		"from TLS to TLS":                       {[]string{"rediss://user:secret@a:7000"}, nil, "rediss://a:6380", "a:6380 user:secret", "a:6380 user:secret"},
		"from TLS to TLS elsewhere":             {[]string{"rediss://user:secret@a:6380"}, nil, "rediss://b:6380", never, "b:6380 user:secret"},
		"to TLS":                                {[]string{"redis://user:secret@a"}, nil, "rediss://a:6380", "a:6380 user:secret", "a:6380 user:secret"},
		"a certificate of options":              {[]string{"rediss://a:6380"}, []Option{withFiles}, "rediss://b:6380", never, "b:6380 certificate "},
		"a certificate of options, trusted":     {[]string{"rediss://a:6380"}, []Option{withFiles, trust}, "rediss://b:6380", "b:6380 certificate ", "b:6380 certificate "},
		"a certificate of a configuration":      {[]string{"rediss://a:6380"}, []Option{withConfig}, "rediss://b:6380", never, "b:6380 certificate "},
		"a certificate of an endpoint":          {[]string{"rediss://a:6380" + files}, nil, "rediss://b:6380", never, "b:6380 certificate "},
		"a certificate, another port":           {[]string{"rediss://[2001:db8::1]:7000" + files}, nil, "rediss://[2001:DB8::1]:6380", "[2001:db8::1]:6380 certificate ", "[2001:db8::1]:6380 certificate "},
		"a certificate that the masters name":   {[]string{"rediss://a:6380"}, nil, "rediss://b:6380" + files, "b:6380 ", "b:6380 certificate "},
		"a name of the host's certificate":      {[]string{"rediss://:secret@a:7000?servername=n.example"}, nil, "rediss://a:6380?servername=N.example", "a:6380 :secret", "a:6380 :secret"},
		"a name that only the masters name":     {[]string{"rediss://:secret@a:7000?servername=n.example"}, nil, "rediss://a:6380?servername=evil.example", never, "a:6380 :secret"},
		"a name, where the list has none":       {[]string{"rediss://:secret@a:7000"}, nil, "rediss://a:6380?servername=evil.example", never, "a:6380 :secret"},
		"a name of another host":                {[]string{"rediss://:secret@a:7000", "rediss://:own@b:7000?servername=n.example"}, nil, "rediss://a:6380?servername=n.example", never, "a:6380 :secret"},
		"a name that is the host":               {[]string{"rediss://:secret@a:7000"}, nil, "rediss://a:6380?servername=a", "a:6380 :secret", "a:6380 :secret"},
		"a name, trusted":                       {[]string{"rediss://:secret@a:7000"}, []Option{trust}, "rediss://b:6380?servername=n.example", "b:6380 :secret", "b:6380 :secret"},
		"a name without credentials":            {[]string{"rediss://a:7000"}, nil, "rediss://b:6380?servername=n.example", "b:6380 ", "b:6380 "},
		"a certificate of options, without TLS": {[]string{"redis://a"}, []Option{withFiles}, "rediss://b:6380", never, "b:6380 certificate "},
	} {
		t.Run(name, func(t *testing.T) {
			r.listen()
			opts := append([]Option{WithDialer(r.dial), WithTLSConfig(&tls.Config{InsecureSkipVerify: true})}, test.opts...)
			var list []*Node
			for _, text := range test.list {
				n, err := NewNode(text, opts...)
				require.NoError(t, err)
				require.NoError(t, n.Close())
				list = append(list, n)
			}
			hears := func(connect func([]*Node, string) (*Node, error)) string {
				heard := r.listen()
				n, err := connect(list, test.member)
				if err != nil {
					require.ErrorIs(t, err, ErrEndpoint)
					return ""
				}
				defer n.Close()
				require.Eventually(t, func() bool { return n.Stats().State == Down }, time.Minute, time.Millisecond)
				if err := n.Stats().Err; n.endpoint.Load().untrusted != nil {
					require.ErrorIs(t, err, ErrUntrusted)
					assert.Empty(t, heard)
					return never
				}
				return <-heard
			}
			assert.Equal(t, test.found, hears(NewMember), "the masters name it")
			assert.Equal(t, test.named, hears(Named), "the caller names it")
		})
	}
}

// An operator names a member that was left out.
func TestANodeThatIsNamedIsConnectedTo(t *testing.T) {
	r := &listener{}
	r.listen()
	first, err := NewNode("redis://:secret@a", WithDialer(r.dial), WithBackoff(time.Millisecond, time.Millisecond))
	require.NoError(t, err)
	require.NoError(t, first.Close())
	list := []*Node{first}
	n, err := NewMember(list, "redis://b")
	require.NoError(t, err)
	defer n.Close()
	named, err := Named(list, "redis://:own@b")
	require.NoError(t, err)
	require.NoError(t, named.Close())
	heard := r.listen()
	n.Trust(named)
	assert.Equal(t, "b:6379 :own", <-heard)
}
