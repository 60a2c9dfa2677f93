package main

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redquorum/redquorum/cmd/redlock/internal/clitest"
	"github.com/redquorum/redquorum/internal/proof/servers/redistest"
)

// evil is what a terminal must not get as it is: it writes to the clipboard, clears the screen,
// hides what stood before, turns the direction of the text, or is no text.
const evil = "\x1b]52;c;ZXZpbA==\a \x1b[2J\x1b[H \b\x7f \x00 \u009b31m \u202egnp.exe \u200b \ufeff \xff\xfe all is well"

// hostile is a server that changes the answers of another one.
type hostile struct {
	behind *redistest.Server
	change func(command string, args []string, reply any) any // nil for no change
}

// start returns its endpoint.
func (h *hostile) start(t *testing.T) string {
	t.Helper()
	listener, err := redistest.Listen()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, listener.Close()) })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go h.serve(client)
		}
	}()
	return "redis://" + listener.Addr().String()
}

func (h *hostile) serve(client net.Conn) {
	defer client.Close()
	server, err := redis.Dial("tcp", h.behind.Addr())
	if err != nil {
		return
	}
	defer server.Close()
	in := bufio.NewReader(client)
	for {
		args, err := readCommand(in)
		if err != nil {
			return
		}
		name := strings.ToUpper(args[0])
		var reply any = redis.Error("ERR no subscriptions")
		if name != "SUBSCRIBE" {
			if reply, err = server.Do(name, redis.Args{}.AddFlat(args[1:])...); err != nil {
				reply = err
			}
		}
		if changed := h.change(name, args[1:], reply); changed != nil {
			reply = changed
		}
		if _, err := client.Write([]byte(encode(reply))); err != nil {
			return
		}
	}
}

func readCommand(in *bufio.Reader) (args []string, err error) {
	number := func() (n int) {
		var text string
		if text, err = in.ReadString('\n'); err == nil {
			n, err = strconv.Atoi(strings.Trim(text, "*$\r\n"))
		}
		return n
	}
	for n := number(); n > 0 && err == nil; n-- {
		word := make([]byte, number()+2)
		for at := 0; at < len(word) && err == nil; {
			var read int
			read, err = in.Read(word[at:])
			at += read
		}
		args = append(args, string(word[:len(word)-2]))
	}
	if err == nil && len(args) == 0 {
		err = fmt.Errorf("no command")
	}
	return args, err
}

func encode(reply any) string {
	switch r := reply.(type) {
	case nil:
		return "$-1\r\n"
	case int64:
		return fmt.Sprintf(":%d\r\n", r)
	case string:
		return "+" + r + "\r\n"
	case []byte:
		return fmt.Sprintf("$%d\r\n%s\r\n", len(r), r)
	case []any:
		var text strings.Builder
		text.WriteString(fmt.Sprintf("*%d\r\n", len(r)))
		for _, one := range r {
			text.WriteString(encode(one))
		}
		return text.String()
	default:
		return fmt.Sprintf("-%v\r\n", r)
	}
}

// requireReadable asserts that a terminal shows a text and obeys nothing of it, and how long it is.
func requireReadable(t *testing.T, text string) {
	t.Helper()
	assert.True(t, utf8.ValidString(text), "%q", text)
	for _, r := range text {
		if r != '\n' && !strconv.IsGraphic(r) {
			t.Errorf("%q in %q", r, text)
			break
		}
	}
	assert.Less(t, len(text), 100_000)
}

// askers are command lines that show what masters say.
var askers = []string{
	"doctor", "doctor --json", "list", "list --json", "inspect evil", "inspect evil --json", "log", "log --json", "members", "members --json",
	"unlock evil --force --reason y", "run --name evil --wait 1s -- echo it ran", "run --name evil --permits 2 --wait 1s -- echo it ran",
	"run --name evil --shared --wait 1s -- echo it ran",
}

// saidAbout returns what a command line shows. What runs a command does so in a process of its own.
func saidAbout(urls []string, command string) string {
	words := strings.Fields(command)
	if words[0] == "run" {
		said, _ := clitest.Command(urls, words...).CombinedOutput() //nolint:errcheck // its status may be any
		return string(said)
	}
	_, stdout, stderr := line(slices.Concat(words[:1], []string{"--nodes", strings.Join(urls, ",")}, words[1:])...)
	return stdout + stderr
}

// Whoever answers in place of a master, or has written to it, can write only what can be read.
func TestNothingThatAMasterSaysIsObeyedByATerminal(t *testing.T) {
	all := func(string, []string, any) bool { return true }
	only := func(commands ...string) func(string, []string, any) bool {
		return func(name string, _ []string, _ any) bool {
			return strings.Contains(" "+strings.Join(commands, " ")+" ", " "+name+" ")
		}
	}
	inEach := func(reply any) any { // each text of a reply ends so
		var change func(any) any
		change = func(one any) any {
			switch r := one.(type) {
			case []byte:
				return []byte(strings.ReplaceAll(string(r), "\r\n", evil+"\r\n") + evil)
			case []any:
				for i := range r {
					r[i] = change(r[i])
				}
			}
			return one
		}
		return change(reply)
	}
	errorOf := func(code string) func(any) any {
		return func(any) any { return redis.Error(code + " " + evil + strings.Repeat("x", 3000)) }
	}
	f := start(t)
	for name, c := range map[string]struct {
		at  func(string, []string, any) bool
		say func(any) any
	}{
		"errors":              {all, errorOf("ERR")},
		"rights":              {only("EVAL", "EVALSHA", "SCAN", "GET", "SET", "DEL"), errorOf("NOPERM")},
		"memory":              {only("EVAL", "EVALSHA"), errorOf("OOM")},
		"wrong password":      {all, errorOf("WRONGPASS")},
		"loading":             {only("GET"), errorOf("LOADING")},
		"errors of questions": {only("SCAN", "CONFIG", "INFO", "ACL", "TIME", "PTTL", "STRLEN"), errorOf("ERR")},
		"INFO and CONFIG":     {only("INFO", "CONFIG", "ACL"), inEach},
		"markers":             {only("GET", "MGET"), inEach},
		"names":               {only("SCAN"), inEach},
		"answers of scripts":  {only("EVAL", "EVALSHA"), inEach},
		"a huge error":        {only("EVAL", "EVALSHA", "SCAN"), func(any) any { return redis.Error("ERR " + strings.Repeat("\x1b[2J", 1<<19)) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var urls []string
			for _, server := range f.servers {
				h := &hostile{server, func(command string, args []string, reply any) any {
					if command == "SCRIPT" || !c.at(command, args, reply) {
						return nil
					}
					return c.say(reply)
				}}
				urls = append(urls, h.start(t))
			}
			for _, command := range askers {
				t.Run(command, func(t *testing.T) {
					t.Parallel()
					said := saidAbout(urls, strings.ReplaceAll(command, "evil", "evil-"+strings.ReplaceAll(name, " ", "-")))
					assert.NotEmpty(t, said)
					requireReadable(t, said)
				})
			}
		})
	}
}
