package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"

	"github.com/redquorum/redquorum/internal/proof/fake"
)

// route is the network between one process and the nodes, some of which may be unreachable.
type route struct {
	sim *simulation

	mu    sync.Mutex // guards the fields below
	cut   uint64     // a bit for each unreachable node
	conns map[int][]*fake.Conn
}

var errCut = errors.New("no route to the node")

func newRoute(s *simulation, cut uint64) *route {
	return &route{sim: s, cut: cut, conns: make(map[int][]*fake.Conn)}
}

func (r *route) dial(ctx context.Context, network, address string) (net.Conn, error) {
	i, err := nodeAt(address)
	if err != nil {
		return nil, err
	}
	if r.isCut(i) {
		return nil, errCut
	}
	conn, err := r.sim.server(i).Dial(ctx)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns[i] = append(r.conns[i], conn.(*fake.Conn))
	return conn, nil
}

func (r *route) isCut(i int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cut>>i&1 == 1
}

// nodeAt returns the index of the node at an address.
func nodeAt(address string) (i int, err error) {
	_, err = fmt.Sscanf(address, "node%d:6379", &i)
	return i, err
}

// set makes the given nodes, and no others, unreachable from now on.
func (r *route) set(cut uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = cut
	for i, conns := range r.conns {
		if cut>>i&1 == 1 {
			for _, conn := range conns {
				conn.Reset()
			}
			delete(r.conns, i)
		}
	}
}

// minority returns the bits of fewer than half of the nodes: half of the time as many as possible,
// and a quarter of the time none.
func (s *simulation) minority(rng *rand.Rand) (nodes uint64) {
	most := (len(s.servers) - 1) / 2
	count := []int{0, rng.IntN(most + 1), most, most}[rng.IntN(4)]
	for _, i := range rng.Perm(len(s.servers))[:count] {
		nodes |= 1 << i
	}
	return nodes
}

// server returns the node that currently answers at an endpoint.
func (s *simulation) server(i int) *fake.Node {
	s.exchange.Lock()
	defer s.exchange.Unlock()
	return s.servers[i]
}

// replaceServer puts another server behind an endpoint. The old one is killed together with its
// connections.
func (s *simulation) replaceServer(i int, server *fake.Node) {
	old := s.server(i)
	s.exchange.Lock()
	s.servers[i] = server
	s.exchange.Unlock()
	old.Kill()
}

// dialer is the cluster's dialer, for servers that may be replaced.
func (s *simulation) dialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) {
		i, err := nodeAt(address)
		if err != nil {
			return nil, err
		}
		return s.server(i).Dial(ctx)
	}
}
