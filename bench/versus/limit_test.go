package versus

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// limitPeer is the leanest client that sends the same commands: what a library adds to it is its
// price. It has one goroutine and one connection per server. A batch is a write to each server and
// a read of the replies, for the SETs and then for the releases. Like a lock, it goes on once a
// quorum has answered, and reads what the others owe before it writes to them again. It has no
// timeouts, no errors to speak of and no clock.
type limitPeer struct {
	conns []net.Conn
	owed  [][]byte // by connection: replies to commands that were sent, not read yet
	set   commands
	del   commands
	reply []byte
}

// commands has one command for every name, ready to be sent.
type commands struct {
	bytes  []byte // all of the same length, one after the other
	length int    // of one
	reply  string // what the server answers to each
	wanted []byte // that answer, repeated for the largest batch
}

// limitScript is the compare-and-delete that every Redlock client runs.
const limitScript = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`

// limitDial bounds connecting to a server on this machine.
const limitDial = 5 * time.Second

func openLimit(s setup) (peer, error) {
	sum := sha1.Sum([]byte(limitScript)) // Redis names scripts by their SHA-1
	digest := hex.EncodeToString(sum[:])
	p := &limitPeer{set: commands{reply: "+OK\r\n"}, del: commands{reply: ":1\r\n"}}
	for _, name := range s.names {
		value := rand.Text()
		p.set.add("SET", name, value, "NX", "PX", "10000")
		p.del.add("EVALSHA", digest, "1", name, value)
	}
	p.set.wanted = bytes.Repeat([]byte(p.set.reply), s.goroutines)
	p.del.wanted = bytes.Repeat([]byte(p.del.reply), s.goroutines)
	p.reply = make([]byte, max(len(p.set.wanted), len(p.del.wanted)))
	for _, address := range s.addresses {
		conn, err := dialLimit(address, digest)
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		p.conns = append(p.conns, conn)
	}
	p.owed = make([][]byte, len(p.conns))
	return p, nil
}

// dialLimit connects to a server and loads the script.
func dialLimit(address, digest string) (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", address, limitDial)
	if err != nil {
		return nil, err
	}
	wanted := fmt.Sprintf("$%d\r\n%s\r\n", len(digest), digest)
	reply := make([]byte, len(wanted))
	if _, err = conn.Write(command("SCRIPT", "LOAD", limitScript)); err == nil {
		_, err = io.ReadFull(conn, reply)
	}
	if err == nil && string(reply) != wanted {
		err = fmt.Errorf("SCRIPT LOAD was answered by %q", reply)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// command returns a command as it is sent to the server.
func command(words ...string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(word), word)
	}
	return []byte(b.String())
}

func (c *commands) add(words ...string) {
	one := command(words...)
	if c.length != 0 && c.length != len(one) {
		panic(fmt.Sprintf("versus: %q has %d bytes and not %d: the names differ in length", one, len(one), c.length))
	}
	c.length = len(one)
	c.bytes = append(c.bytes, one...)
}

// batches makes limitPeer a batcher.
func (p *limitPeer) batches() {}

func (p *limitPeer) lockUnlock(_ context.Context, locks batch) error {
	if err := p.exchange(&p.set, locks); err != nil {
		return err
	}
	return p.exchange(&p.del, locks)
}

// exchange sends a command for every lock to all servers and takes the replies of a quorum.
func (p *limitPeer) exchange(c *commands, locks batch) error {
	if err := p.collect(p.conns); err != nil {
		return err
	}
	out := c.bytes[locks.first*c.length:][:len(locks.names)*c.length]
	for i, conn := range p.conns {
		if _, err := conn.Write(out); err != nil {
			return err
		}
		p.owed[i] = c.wanted[:len(locks.names)*len(c.reply)]
	}
	return p.collect(p.conns[:len(p.conns)/2+1])
}

// collect reads what the connections owe, and compares it. No reply is shorter than the expected
// one.
func (p *limitPeer) collect(conns []net.Conn) error {
	for i, conn := range conns {
		reply := p.reply[:len(p.owed[i])]
		if _, err := io.ReadFull(conn, reply); err != nil {
			return err
		}
		if !bytes.Equal(reply, p.owed[i]) {
			return fmt.Errorf("%s: got %.200q, want %.20q", conn.RemoteAddr(), reply, p.owed[i])
		}
		p.owed[i] = nil
	}
	return nil
}

// Close ends the connections.
func (p *limitPeer) Close() error {
	var errs []error
	for _, conn := range p.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}
