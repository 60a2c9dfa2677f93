package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/internal/fakeredis"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/proof/virtual"
	"github.com/redquorum/redquorum/redlock"
)

// Where members change, the servers of a simulation are the first members of a cluster, spare ones,
// and one that belongs to another cluster.
const (
	spares     = 2
	foreigners = 1

	// fewestMembers is how many the operators leave, if there were that many.
	fewestMembers = 3
)

// withChanges returns the kind with operators who change the members beside its clients, and with
// clients whose lists differ. Ordinary runs play the same histories each time, and a soak new ones:
// they still find something now and then. The order in which waiters are served is not judged: a
// change of members is a change of coordinators.
func (u using) withChanges(patience time.Duration) using {
	u.changes, u.turns, u.bound = true, turns{}, 0
	u.people = append(slices.Clone(u.people), operates, operates)
	if !u.still {
		u.ills = append(slices.Clone(u.ills), "stands still")
	}
	if u.patience == 0 || u.patience == forEver { // some lists lead nowhere
		u.patience = patience
	}
	return u
}

// found makes a cluster of the first nodes, and of the last one and others that are not there
// another cluster.
func (s *simulation) found(members int) {
	all, maxTTL := s.Servers, max(s.maxTTL, s.kind.ttl)
	s.members, s.Servers = members, all[:members]
	s.Limit(maxTTL)
	s.Servers = all
	if len(all) == members {
		return
	}
	last := len(all) - 1
	s.Admit(last, maxTTL)
	for _, key := range []string{pipeline.MemoryKey, pipeline.RegisterKey} {
		text, _, _ := all[last].Get(key)
		for i := range all[:last] {
			text = strings.Replace(text, fmt.Sprintf("%s=%[1]s", virtual.Endpoint(i)), fmt.Sprintf("%s=redis://away%d:6379", virtual.Endpoint(i), i), 1)
		}
		text = strings.NewReplacer("cluster=C", "cluster=D", "1.first - C", "1.first - D").Replace(text)
		s.Do(last, "SET", key, text)
	}
	for i := range all[:members] {
		if s.keeping[i] {
			marker, _, _ := all[i].Get(pipeline.MemoryKey)
			s.Do(i, "SET", pipeline.MemoryKey, strings.Replace(marker, " 0 ", " 1 ", 1))
		}
	}
}

// candidates is how many of the servers can be members.
func (s *simulation) candidates() int {
	if s.kind.changes {
		return len(s.Servers) - foreigners
	}
	return len(s.Servers)
}

// fewest is how many members there are at least.
func (s *simulation) fewest() int {
	if s.kind.changes {
		return min(s.members, fewestMembers)
	}
	return len(s.Servers)
}

// drawList returns the list of a process and its options: the first members, all masters, a part of
// either, or some that belong elsewhere. Who may form a new cluster has one in the list that
// remembers this one. (Somebody whose masters all are new is not told that there is an older one.)
func (s *simulation) drawList(rng *rand.Rand) (list []int, opts []redlock.Option) {
	list = rng.Perm(s.candidates())
	if rng.IntN(2) == 0 {
		opts = append(opts, redlock.WithCluster("C"))
		of := []int{s.members, s.members, s.candidates()}[rng.IntN(3)]
		list = slices.DeleteFunc(list, func(i int) bool { return i >= of })
		if rng.IntN(2) == 0 {
			list = list[:1+rng.IntN(len(list))]
		}
		for _, known := range rng.Perm(s.members)[:min(s.members, 2)] { // one may forget
			if !slices.Contains(list, known) {
				list = append(list, known)
			}
			if !s.faults.restarts {
				break
			}
		}
	}
	if rng.IntN(4) == 0 {
		list = slices.Insert(list, rng.IntN(len(list)+1), len(s.Servers)-1)
	}
	if rng.IntN(6) == 0 {
		opts = append(opts, redlock.WithoutDiscovery())
	}
	return list, opts
}

// spelled returns an endpoint of a node, where members change in one of several spellings. One of
// these is another name of it.
func (s *simulation) spelled(rng *rand.Rand, i int) string {
	if !s.kind.changes {
		return fmt.Sprintf("node%d:6379", i)
	}
	return fmt.Sprintf([]string{"node%d:6379", "redis://node%d:6379", "redis://NODE%d", "host%d:6379"}[rng.IntN(4)], i)
}

// nodeAt returns the node that answers at an address; -1 if none does.
func (s *simulation) nodeAt(address string) int {
	host, _, _ := strings.Cut(address, ":")
	i, err := strconv.Atoi(strings.TrimPrefix(strings.TrimPrefix(host, "node"), "host"))
	if err != nil || i >= len(s.Servers) {
		return -1
	}
	return i
}

// operates is one operator after another. Each makes one change, or tries to. Some are killed
// meanwhile, and some stand still and go on when others have gone on without them.
func operates(s *simulation, rng *rand.Rand) {
	for id := 10_000 * (1 + rng.IntN(1_000_000)); s.goesOn(); id++ {
		s.pause(upTo(rng, s.maxTTL/2))
		p := s.newProcess(id, rng, []redlock.Option{redlock.WithTTL(s.maxTTL)})
		if rng.IntN(2) == 0 {
			p.list = rng.Perm(s.candidates())
		}
		p.start()
		who := fmt.Sprint("operator ", id)
		ctx, cancel := context.WithTimeout(s.base, upTo(rng, 6*s.maxTTL))
		switch rng.IntN(4) {
		case 0:
			time.AfterFunc(upTo(rng, s.maxTTL), func() { p.route.set(^uint64(0)) }) // it is killed
		case 1:
			time.AfterFunc(upTo(rng, s.maxTTL), func() { p.route.hold(true) })
			time.AfterFunc(s.maxTTL+upTo(rng, 3*s.maxTTL), func() { p.route.hold(false) })
		}
		rivals := s.rivalsIn(p.list)
		err := s.change(ctx, admin.Of(p.current()).Cluster(), rng)
		s.judgeChange(ctx, who, rivals || s.rivalsIn(p.list), err)
		cancel()
		_ = p.current().Close() // masters may be away
	}
}

// change makes a random change.
func (s *simulation) change(ctx context.Context, c *admin.Cluster, rng *rand.Rand) error {
	m, err := c.Members(ctx)
	if err != nil {
		return err
	}
	there := make([]int, len(m.Members))
	for i, member := range m.Members {
		there[i] = s.nodeAt(strings.TrimPrefix(member.Endpoint, "redis://"))
	}
	out := rng.IntN(len(there))
	in := rng.IntN(s.candidates())
	adds, removes := !slices.Contains(there, in), len(there) > s.fewest()
	switch what := rng.IntN(8); {
	case what == 0:
		return c.SetMaxTTL(ctx, s.maxTTL>>rng.IntN(2))
	case what == 1: // of another cluster
		return c.Add(ctx, s.spelled(rng, len(s.Servers)-1))
	case what <= 3 && adds:
		if err := c.Add(ctx, s.spelled(rng, in)); err != nil {
			return err
		}
		return c.Remove(ctx, m.Members[out].ID)
	case adds && (!removes || what <= 5):
		return c.Add(ctx, s.spelled(rng, in))
	case removes:
		return c.Remove(ctx, m.Members[out].ID)
	default:
		return nil
	}
}

// judgeChange fails if a change ended without a reason. Rivals says that the list may mean another
// cluster.
func (s *simulation) judgeChange(ctx context.Context, who string, rivals bool, err error) {
	switch {
	case err == nil, ctx.Err() != nil && errors.Is(err, ctx.Err()), errors.Is(err, redlock.ErrOtherCluster):
	case errors.Is(err, redlock.ErrNoQuorum), errors.Is(err, redlock.ErrNotMember): // too few answer; another one has removed it
	case errors.Is(err, redlock.ErrInvalid) && strings.Contains(err.Error(), "the only member"):
	case errors.Is(err, redlock.ErrInvalid) && strings.Contains(err.Error(), "two clusters") && rivals:
	default:
		s.judge.fail("%s: a change ended with %v", who, err)
	}
}

// followsVersions fails if a master that remembers was told an older version than before.
func (s *simulation) followsVersions(i int, c fakeredis.Change) {
	if c.Key != pipeline.MemoryKey {
		return
	}
	before, after := versionIn(c.Old), versionIn(c.New)
	if after != 0 && after < before && strings.HasPrefix(c.Old, "active") {
		s.judge.fail("node %d went back from version %d to %d", i, before, after)
	}
}

// versionIn returns the number of the version that a marker names; 0 if it names none.
func versionIn(marker string) (number int) {
	_, rest, _ := strings.Cut(marker, " version=")
	text, _, _ := strings.Cut(rest, ".")
	number, _ = strconv.Atoi(text) //nolint:errcheck // 0
	return number
}

// toldOf returns the list that a master was told and remembers, and its number; 0 if it remembers
// none, or is one of the other cluster. The marker is of its process, or a user who may not use
// INFO wrote it: another one came with data from a disk, and is no memory.
func (s *simulation) toldOf(i int) (list string, number int) {
	marker, _, _ := s.Servers[i].Get(pipeline.MemoryKey)
	text, _, _ := s.Servers[i].Get(pipeline.RegisterKey)
	lines := strings.Split(text, "\n")
	words := append(strings.Fields(marker), "", "", "")
	if len(lines) < 2 || words[0] != "active" || words[2] != s.Servers[i].RunID() && words[2] != "-" || strings.Contains(marker, " cluster=D ") {
		return "", 0
	}
	return lines[1], versionIn(marker)
}

// newest returns the newest list that a master was told, and its number.
func (s *simulation) newest() (list string, number int) {
	for i := range s.Servers {
		if told, n := s.toldOf(i); n > number {
			list, number = told, n
		}
	}
	return list, number
}

// counted returns the list of members that a majority of them was told and remembers; empty if
// there is none.
func (s *simulation) counted() string {
	by := make(map[string]int)
	for i := range s.Servers {
		if list, number := s.toldOf(i); number != 0 && lists(list, i) {
			by[list]++
		}
	}
	for list, told := range by {
		if 2*told > strings.Count(list, "=") {
			return list
		}
	}
	return ""
}

// rivalsIn reports whether a list has as many masters of another cluster as it has members of the
// one that counts.
func (s *simulation) rivalsIn(list []int) bool {
	members, own := s.counted(), 0
	others := make(map[string]int)
	for _, i := range list {
		if lists(members, i) {
			own++
		}
		marker, _, _ := s.Servers[i].Get(pipeline.MemoryKey)
		_, cluster, _ := strings.Cut(marker, " cluster=")
		if cluster, _, _ = strings.Cut(cluster, " "); cluster != "" && !strings.Contains(members, " "+cluster+" ") {
			others[cluster]++
		}
	}
	for _, n := range others {
		if n >= own && (own > 0 || len(others) > 1) {
			return true
		}
	}
	return false
}

// lists reports whether a list of members, as masters keep it, has a node.
func lists(list string, node int) bool {
	return strings.Contains(list+" ", fmt.Sprintf("node%d:6379 ", node)) || strings.Contains(list+" ", fmt.Sprintf("host%d:6379 ", node))
}

// memberMayForget reports whether a node may lose its memory where members change: another member
// of the newest version remembers, and all that were removed know it (docs/operations.md).
func (s *simulation) memberMayForget(i int) bool {
	list, number := s.newest()
	remembers := false
	for k := range s.Servers {
		_, told := s.toldOf(k)
		is := lists(list, k)
		switch {
		case told == 0:
		case !is && told < number:
			return false
		case is && k != i && told == number:
			remembers = true
		}
	}
	return remembers
}

// goesOnWithChanges fails if the members cannot be changed soon after everything is over, or not
// all of them vote. Its list is that of the members. Where all of them forgot and only masters that
// were removed remember, it makes a new cluster of them, as docs/operations.md says (Restarts).
func (s *simulation) goesOnWithChanges() {
	rng := rand.New(rand.NewPCG(s.seed, 1<<44))
	p := s.newProcess(9_999_999, rng, []redlock.Option{redlock.WithTTL(s.maxTTL / 2)})
	list := s.counted()
	onlyRemovedRemember := list == ""
	if onlyRemovedRemember {
		list, _ = s.newest()
	}
	for i := range s.Servers {
		if before, told := s.toldOf(i); told != 0 && lists(list, i) && onlyRemovedRemember {
			list, onlyRemovedRemember = list+" "+before, false // the change to it is under way
		}
	}
	p.list = slices.DeleteFunc(rng.Perm(len(s.Servers)), func(i int) bool {
		return list != "" && !lists(list, i) || list == "" && i >= s.candidates()
	})
	p.opts = []redlock.Option{redlock.WithTTL(s.maxTTL / 2), redlock.WithMaxTTL(s.maxTTL)} // with discovery
	p.start()
	defer p.current().Close()
	ctx, cancel := context.WithTimeout(s.base, time.Minute)
	defer cancel()
	c := admin.Of(p.current()).Cluster()
	if onlyRemovedRemember && list != "" {
		if err := admin.Of(p.current()).Init(ctx, true); err != nil {
			s.T.Errorf("after everything is over, no new cluster could be made: %v", err)
			return
		}
	}
	if err := c.SetMaxTTL(ctx, s.maxTTL); err != nil {
		s.T.Errorf("after everything is over, a change ended with %v", err)
		return
	}
	var m admin.Membership
	var err error
	for ctx.Err() == nil {
		if m, err = c.Members(ctx); err == nil && !slices.ContainsFunc(m.Members, func(m admin.Member) bool { return !m.Voting }) {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if ctx.Err() != nil {
		s.T.Errorf("after everything is over, not all members vote: %+v %v", m, err)
		return
	}
	if lock, err := p.current().TryLock(ctx, "after all"); err != nil {
		s.T.Errorf("after everything is over: %v", err)
	} else if err := lock.Unlock(ctx); err != nil {
		s.T.Errorf("after everything is over: %v", err)
	}
	for _, member := range m.Members {
		if member.Version != m.Version {
			s.T.Errorf("after everything is over, a member does not know version %d: %+v", m.Version, member)
		}
	}
}

// heldConn is a connection of a process that may stand still: what it writes meanwhile arrives
// when it goes on, also if it has been closed since.
type heldConn struct {
	net.Conn
	route *route

	mu      sync.Mutex // guards the fields below
	waiting []byte
	closed  bool
}

func (c *heldConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case c.route.isHeld() || len(c.waiting) > 0:
		c.waiting = append(c.waiting, b...)
		return len(b), nil
	default:
		return c.Conn.Write(b)
	}
}

func (c *heldConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if len(c.waiting) > 0 {
		return c.SetReadDeadline(time.Unix(0, 0)) // goesOn closes it
	}
	return c.Conn.Close()
}

func (c *heldConn) goesOn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 {
		return
	}
	_, _ = c.Conn.Write(c.waiting) //nolint:errcheck // it may be broken
	if c.waiting = nil; c.closed {
		_ = c.Conn.Close() // always nil
	}
}

// hold makes a process stand still, or go on.
func (r *route) hold(on bool) {
	r.mu.Lock()
	r.held = on
	conns := slices.Clone(r.all)
	r.mu.Unlock()
	for _, conn := range conns {
		if !on {
			conn.goesOn()
		}
	}
}

func (r *route) isHeld() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held
}
