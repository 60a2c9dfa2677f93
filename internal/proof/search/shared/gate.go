package shared

// A Gate is what a resource remembers: the largest tokens of writers and of readers that it has
// seen. It refuses a lock as soon as it has seen a later one that excludes it.
type Gate struct{ Write, Read int64 }

// AdmitWrite reports whether a writer with this token may go on. A reader's token may be as large
// as that of the writer before it, so a writer must be above all readers.
func (g *Gate) AdmitWrite(token int64) bool {
	if token < g.Write || token <= g.Read {
		return false
	}
	g.Write = token
	return true
}

// AdmitRead reports whether a reader with this token may go on.
func (g *Gate) AdmitRead(token int64) bool {
	if token < g.Write {
		return false
	}
	g.Read = max(g.Read, token)
	return true
}
