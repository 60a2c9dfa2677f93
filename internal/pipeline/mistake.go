package pipeline

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// What people paste where an endpoint belongs, and how it is written instead. None of the texts
// repeats a part of the endpoint, which may be a password.
const (
	severalInOne = "several endpoints in one: each is an entry of its own (in REDLOCK_NODES and --nodes, commas separate them; in a password, a comma is %2C)"
	notEncoded   = "a special character in the password is not percent-encoded (@ is %40, / is %2F, : is %3A, # is %23, ? is %3F, a comma is %2C, a space is %20)"
)

var isVariable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(export\s+)?[A-Z_][A-Z0-9_]*=`) })

// isList reports whether a scheme follows what separates endpoints.
func isList(text string) bool {
	const separators = ",; \t\n\f\r"
	rest := strings.ToLower(text)
	for at := strings.IndexAny(rest, separators); at >= 0; at = strings.IndexAny(rest, separators) {
		rest = rest[at+1:]
		if scheme, _, is := strings.Cut(rest, "://"); is && (scheme == "redis" || scheme == "rediss" || scheme == "unix") {
			return true
		}
	}
	return false
}

// isBlank reports whether a character is a space, a line end, or cannot be seen.
func isBlank(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
}

// mistake returns what is probably wrong with an endpoint that cannot be read; empty if there is
// nothing to say beside why.
func mistake(text string) string {
	scheme, rest, isURL := strings.Cut(text, "://")
	if !isURL {
		rest = text
	}
	where := rest[strings.LastIndex(rest, "@")+1:] // the host and what is behind it
	word, _, _ := strings.Cut(strings.ToLower(text), ":")
	isScheme := !isURL && (word == "redis" || word == "rediss" || word == "unix") && strings.Contains(text, ":/")
	switch {
	case isVariable().MatchString(text):
		return "give the endpoint alone, without NAME= in front"
	case strings.ContainsAny(text[:min(1, len(text))], "\"'`<") || strings.HasPrefix(text, "[\"") || strings.HasPrefix(text, "['") ||
		strings.HasPrefix(text, "“") || strings.HasPrefix(text, "‘") ||
		strings.HasSuffix(text, "\"") || strings.HasSuffix(text, "'"):
		return "an endpoint has no quotes or brackets around it"
	case strings.EqualFold(scheme, "unix"):
		return ""
	case strings.ContainsAny(where, ",;") || areSeveral(where):
		return severalInOne
	case strings.ContainsFunc(text, isBlank):
		return "a space, a line end or an invisible character inside it (in a password, a space is %20)"
	case isURL && strings.Contains(rest[max(strings.IndexAny(rest, "/?#"), 0):], "@") && strings.ContainsAny(rest, "/?#"):
		return notEncoded
	case isScheme:
		return "a scheme has two slashes behind it: redis://, rediss://, and unix:// with the path, which begins with a third"
	case isURL || !strings.ContainsAny(text, "@/") && strings.Count(text, ":") < 2:
		return ""
	case strings.HasPrefix(text, "/") || strings.HasPrefix(text, "./"):
		return "a socket is written unix:///path/of/the/socket"
	case strings.Contains(text, "@"):
		return "neither host:port nor a URL: in front of a user or a password stands redis://, or rediss:// with TLS"
	case strings.Contains(text, "/"):
		return "neither host:port nor a URL: with a database it is redis://host:port/database"
	case strings.Trim(strings.ToLower(text), "0123456789abcdef:.") == "":
		return "neither host:port nor a URL: an IPv6 address has brackets, as in [::1]:6379"
	}
	return ""
}

// areSeveral reports whether each word of a text looks like host:port.
func areSeveral(text string) bool {
	words := strings.FieldsFunc(text, unicode.IsSpace)
	for _, word := range words {
		if !strings.Contains(word, ":") {
			return false
		}
	}
	return len(words) > 1
}
