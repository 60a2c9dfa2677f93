package fakeredis

func hashCommands() []command {
	return []command{
		{name: "hset", arity: 4, run: hset, writes: true, of: aHash},
		{name: "hget", arity: 3, run: hget, of: aHash},
		{name: "hdel", arity: -3, run: hdel, writes: true, of: aHash},
		{name: "hlen", arity: 2, run: hlen, of: aHash},
	}
}

// hashAt returns the hash at a key, or nil.
func (n *Node) hashAt(s *session, key string) map[string]string {
	if e := n.lookup(s.db, key); e != nil {
		return e.hash
	}
	return nil
}

// hset serves HSET of one field.
func hset(n *Node, s *session, args []string) reply {
	h := n.hashAt(s, args[1])
	if h == nil {
		h = make(map[string]string)
		n.store(s.db, args[1], &entry{hash: h})
	}
	before := len(h)
	h[args[2]] = args[3]
	return integer(len(h) - before)
}

func hget(n *Node, s *session, args []string) reply {
	text, ok := n.hashAt(s, args[1])[args[2]]
	if !ok {
		return replyNil
	}
	return bulk(text)
}

func hdel(n *Node, s *session, args []string) reply {
	h := n.hashAt(s, args[1])
	before := len(h)
	for _, field := range args[2:] {
		delete(h, field)
	}
	if before > 0 && len(h) == 0 {
		n.remove(s.db, args[1])
	}
	return integer(before - len(h))
}

func hlen(n *Node, s *session, args []string) reply {
	return integer(len(n.hashAt(s, args[1])))
}
