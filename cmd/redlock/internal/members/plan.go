package members

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/pool"
	"github.com/redquorum/redquorum/redlock"
)

// step is one change of the list.
type step struct {
	does string // "add redis://d:6379"
	note string // what else there is to know
	make func(ctx context.Context, c *admin.Cluster) error
}

// canonical returns an endpoint as the list has it: without user and password.
func canonical(endpoint string) (string, error) {
	node, err := pool.NewNode(endpoint)
	if err != nil {
		return "", cli.Usagef("the endpoint: %s", strings.TrimPrefix(cli.WithoutPrefix(err), pool.ErrEndpoint.Error()+": "))
	}
	defer node.Close() //nolint:errcheck // always nil
	return node.Endpoint(), nil
}

// find returns the member that is named by its ID or endpoint; nil if there is none.
func find(m *admin.Membership, which string) *admin.Member {
	i := slices.IndexFunc(m.Members, func(one admin.Member) bool { return one.ID == which || one.Endpoint == which })
	if i < 0 && (strings.Contains(which, ":") || strings.Contains(which, "/")) {
		if endpoint, err := canonical(which); err == nil {
			i = slices.IndexFunc(m.Members, func(one admin.Member) bool { return one.Endpoint == endpoint })
		}
	}
	if i < 0 {
		return nil
	}
	return &m.Members[i]
}

func planAdd(m *admin.Membership, endpoint string) ([]step, error) {
	name, err := canonical(endpoint)
	if err != nil || find(m, name) != nil {
		return nil, err
	}
	s := step{does: "add " + name, make: func(ctx context.Context, c *admin.Cluster) error { return c.Add(ctx, endpoint) }}
	if i := slices.IndexFunc(m.Members, func(one admin.Member) bool { return !one.Voting }); i >= 0 {
		s.note = fmt.Sprintf("member %s (%s) does not vote: every member must know the last change first, or be removed", m.Members[i].ID, m.Members[i].Endpoint)
	}
	return []step{s}, nil
}

func planRemove(m *admin.Membership, which string) ([]step, error) {
	one := find(m, which)
	if one == nil {
		return nil, noMember(m, which)
	}
	id := one.ID
	return []step{{
		does: fmt.Sprintf("remove %s (%s)", one.Endpoint, id),
		make: func(ctx context.Context, c *admin.Cluster) error {
			err := c.Remove(ctx, id)
			if errors.Is(err, redlock.ErrNotMember) {
				return nil // somebody else has removed it meanwhile
			}
			return err
		},
	}}, nil
}

// noMember says that there is no such member. What was typed may have a password in it.
func noMember(m *admin.Membership, which string) error {
	var all []string
	for _, one := range m.Members {
		all = append(all, one.ID+" ("+one.Endpoint+")")
	}
	if cli.MayHoldPassword(which) {
		which = "this endpoint"
	}
	return fmt.Errorf("%w: %s; the members are %s", redlock.ErrNotMember, which, strings.Join(all, ", "))
}

// planReplace removes a member first that does not vote: nothing can be added while it is one.
func planReplace(m *admin.Membership, which, endpoint string) ([]step, error) {
	add, err := planAdd(m, endpoint)
	if err != nil {
		return nil, err
	}
	one := find(m, which)
	switch {
	case one == nil && len(add) == 0:
		return nil, nil
	case one == nil && m.Version < 2:
		return nil, noMember(m, which) // none was ever removed
	case one == nil:
		add[0].note = "what it is to replace is no member: it was removed already, or never was one"
		return add, nil
	case len(add) == 0 && find(m, endpoint) == one:
		return nil, nil
	}
	remove, err := planRemove(m, one.ID)
	if err != nil || one.Voting {
		return append(add, remove...), err
	}
	if len(add) > 0 {
		add[0].note = ""
	}
	return append(remove, add...), nil
}

func planMaxTTL(m *admin.Membership, text string) ([]step, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return nil, cli.Usagef("%q is no duration: give it with a unit, as 30s, 5m or 4h", text)
	case d < 10*time.Millisecond || d > 24*time.Hour:
		return nil, cli.Usagef("%v is not between 10ms and 24h", d)
	case d == m.MaxTTL:
		return nil, nil
	}
	s := step{
		does: fmt.Sprintf("set MaxTTL to %v, from %v", d, m.MaxTTL),
		make: func(ctx context.Context, c *admin.Cluster) error { return c.SetMaxTTL(ctx, d) },
	}
	return []step{s}, nil
}

// least returns how long steps take at least.
func least(m *admin.Membership, steps []step) time.Duration {
	if len(steps) == 0 {
		return 0
	}
	return m.Next + time.Duration(len(steps)-1)*m.MaxTTL
}
