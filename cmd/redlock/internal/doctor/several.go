package doctor

import (
	"context"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/trouble"
	"github.com/redquorum/redquorum/pool"
)

// extra is how many connections are made beside the first, to see which server each of them
// reaches: a balancer takes turns, or chooses at random.
const extra = 4

// askOthers finds out whether an endpoint leads to several servers: by further connections, and by
// the addresses that its name has.
func (p *probe) askOthers(ctx context.Context, f *facts) error {
	f.addresses = addressesOf(ctx, f.endpoint)
	if f.runID == "" {
		return nil
	}
	var others []*pipeline.Node
	for range extra {
		others = append(others, p.Node.Again())
	}
	for _, other := range others {
		if awaitUp(ctx, other) == nil {
			if id, _ := other.Identity(); id.RunID != "" {
				f.reached = append(f.reached, id.RunID)
			}
		}
		_ = other.Close() //nolint:errcheck // always nil
	}
	if id, _ := p.Node.Identity(); id.RunID != f.runID {
		f.reached = nil // it restarted meanwhile, or the first connection moved
	}
	return nil
}

// addressesOf returns the addresses of an endpoint's name if it has several of one kind. A machine
// may have one of IPv4 and one of IPv6.
func addressesOf(ctx context.Context, endpoint string) (addresses []string) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Hostname() == "" || net.ParseIP(u.Hostname()) != nil {
		return nil
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return nil // the connection tells
	}
	kinds := map[bool]int{}
	for _, ip := range found {
		ip = ip.Unmap()
		if text := ip.String(); !ip.IsLoopback() && !slices.Contains(addresses, text) {
			addresses = append(addresses, text)
			kinds[ip.Is4()]++
		}
	}
	if max(kinds[true], kinds[false]) < 2 {
		return nil
	}
	slices.Sort(addresses)
	return addresses
}

// checkSeveral tells of an endpoint that leads to more than one server.
func (f *facts) checkSeveral(r *findings) {
	servers := slices.Compact(slices.Sorted(slices.Values(append(f.reached, f.runID))))
	switch {
	case len(servers) > 1:
		r.add(trouble.Several, nil, "several servers answer at this endpoint: %d connections have reached %d of them (run_id %s)",
			len(f.reached)+1, len(servers), strings.Join(servers, ", "))
	case len(f.addresses) > 0:
		r.add(trouble.Addresses, nil, "its name has %d addresses: %s", len(f.addresses), strings.Join(f.addresses, ", "))
	}
}

// awaitUp waits until a node is connected. It returns why it is not.
func awaitUp(ctx context.Context, node *pipeline.Node) error {
	changed := make(chan struct{}, 1)
	stop := node.Observe(func() {
		select {
		case changed <- struct{}{}:
		default: // a notification is pending already
		}
	})
	defer stop()
	for {
		switch stats := node.Stats(); stats.State {
		case pool.Up:
			return nil
		case pool.Down, pool.Closed:
			return stats.Err
		case pool.Connecting:
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
