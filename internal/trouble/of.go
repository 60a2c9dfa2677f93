package trouble

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/gomodule/redigo/redis"
)

// Of returns the kind of an error of a master; "" if it is none of the table. It goes by what its
// author has marked, by the code with which the server has answered, and by the types of the
// standard library.
func Of(err error) Kind {
	if err == nil {
		return ""
	}
	if kind := markOf(err); kind != "" {
		return kind
	}
	var words redis.Error
	if errors.As(err, &words) {
		return OfReply(string(words))
	}
	return ofNetwork(err)
}

// states are the codes of a server that answers so to everything, or to all that writes: to a
// script before its first write.
var states = map[string]Kind{
	"BUSY": Busy, "LOADING": Loading, "MASTERDOWN": Replica, "MISCONF": NotWriting, "NOAUTH": NoPassword,
	"NOREPLICAS": FewReplicas, "OOM": Full, "READONLY": Replica,
}

// codes are others.
var codes = map[string]Kind{"DENIED": Protected, "NOPERM": Right, "WRONGPASS": WrongPassword, "WRONGTYPE": NoString}

// StateOf returns the kind of an answer that tells how the server is, and not what is wrong with
// the command: of a script, the server has run nothing then. It is "" for any other error, and
// NoScripts for a script that the server did not know, and was not sent.
func StateOf(err error) Kind {
	var words redis.Error
	if !errors.As(err, &words) {
		return ""
	}
	code, _, _ := strings.Cut(string(words), " ")
	if code == "NOSCRIPT" {
		return NoScripts
	}
	return states[code]
}

// replies are how whole answers of servers begin that have no code of their own: ERR stands for
// many things. The words are those of Redis 3 to 8 and Valkey, and of scripts within them.
var replies = []struct {
	begins string
	kind   Kind
}{
	{"ERR max number of clients reached", ManyClients},
	{"ERR max number of clients + cluster connections reached", ManyClients},
	{"ERR AUTH <password> called without any password configured", NeedlessPassword},
	{"ERR Client sent AUTH, but no password is set", NeedlessPassword},
	{"ERR invalid password", WrongPassword},
	{"ERR DB index is out of range", Database},
	{"ERR invalid DB index", Database},
	{"ERR unknown command", Unknown},
	{"ERR unknown subcommand", Unknown},
	{"ERR Unknown subcommand", Unknown},
	{"ERR Unknown Redis command called from", Unknown},
	{"ERR Unknown command called from", Unknown},
	{"ERR The user executing the script can't", Right},
	{"ERR ACL failure in script", Right},
}

// OfReply is Of for the words with which a server refused something.
func OfReply(words string) Kind {
	code, _, _ := strings.Cut(words, " ")
	if kind := cmp.Or(states[code], codes[code]); kind != "" {
		return kind
	}
	if code != "ERR" { // scripts of Redis 5 and 6 have no code before the words
		words = "ERR " + words
	}
	// Redis before 7 says first which script it was, and where.
	if at := strings.LastIndex(words, "@user_script:"); at >= 0 {
		if _, said, ok := strings.Cut(words[at+len("@user_script:"):], ": "); ok {
			words = "ERR " + said
		}
	}
	for _, r := range replies {
		if strings.HasPrefix(words, r.begins) {
			return r.kind
		}
	}
	return ""
}

func ofNetwork(err error) Kind {
	var header tls.RecordHeaderError
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var dns *net.DNSError
	var dial *net.OpError
	var timeout net.Error
	switch {
	case errors.As(err, &header):
		return TLSAtPlain
	case errors.As(err, &authority):
		return Authority
	case errors.As(err, &name):
		return ServerName
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return Expired
	case errors.As(err, &dns):
		return Unresolved
	case errors.As(err, &dial) && (errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT)): // or there is no socket
		return Refused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return NoRoute
	case errors.As(err, &timeout) && timeout.Timeout():
		return Silent
	default:
		return ""
	}
}
