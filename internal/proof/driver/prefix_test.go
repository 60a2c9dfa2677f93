package driver_test

import (
	"slices"
	"strings"
	"sync"
	"time"
)

// prefixed is a master whose locks have a prefix before their names. The driver knows its keys
// without that.
type prefixed struct {
	master
	prefix string
	whole  sync.Map // keys that it has told, by what it called them
}

// key returns a key as the master knows it.
func (m *prefixed) key(key string) string {
	if whole, ok := m.whole.Load(key); ok {
		return whole.(string)
	}
	of := strings.LastIndex(key, ":") + 1
	if strings.HasPrefix(key, "redquorum:") && strings.Count(key, ":") == 1 {
		return key // of no lock
	}
	return key[:of] + m.prefix + key[of:]
}

func (m *prefixed) get(key string) (string, time.Duration, bool) { return m.master.get(m.key(key)) }
func (m *prefixed) members(key string) []string                  { return m.master.members(m.key(key)) }

func (m *prefixed) keys() []string {
	all := m.master.keys()
	for i, whole := range all {
		all[i] = strings.Replace(whole, m.prefix, "", 1)
		m.whole.Store(all[i], whole)
	}
	return all
}

// do sends a command for a key, or a script for one.
func (m *prefixed) do(name string, args ...any) (any, error) {
	at, args := 0, slices.Clone(args)
	if name == "EVAL" {
		at = 2
	}
	args[at] = m.key(args[at].(string))
	return m.master.do(name, args...)
}

// prefix has the world's masters put the prefix of the plan before names.
func (w *world) prefix(p *plan) {
	for i := range w.masters {
		if p.prefix != "" {
			w.masters[i] = &prefixed{master: w.masters[i], prefix: p.prefix}
		}
	}
}
