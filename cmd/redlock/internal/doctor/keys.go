package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redquorum/redquorum/internal/ask"
	"github.com/redquorum/redquorum/internal/trouble"
)

// A master that is nearly full is asked for so many keys, to see whose they are. A page of the
// longest names is half of what a reply may have.
const (
	keyPages = 50
	pageSize = 100
)

// family are keys of ours that can be many, by how they begin, and what makes them fewer.
type family struct{ begins, are, fewer string }

var own = []family{
	{"redquorum:permits:", "numbers of permits of semaphores", "use fewer names for semaphores"},
	{"redquorum:fence:", "fencing counters", "use fewer names for locks with tokens"},
	{"redquorum:terms:", "terms of elections", "use fewer names for elections"},
	{"redquorum:", "keys beside locks", "use fewer names at once"},
}

// filling is what of ours fills a master.
type filling struct {
	family              // of which there are most
	n, ours, looked int // keys: of it, of ours, and of all that were looked at
}

// used returns the bytes that a master uses, and its limit; zero if there is none.
func (f *facts) used() (used, limit uint64) {
	used, err := strconv.ParseUint(f.info["used_memory"], 10, 64)
	limit, err2 := strconv.ParseUint(f.info["maxmemory"], 10, 64)
	if err != nil || err2 != nil {
		return 0, 0
	}
	return used, limit
}

// askKeys finds out whether keys of ours are most of what fills a master.
func (p *probe) askKeys(ctx context.Context, f *facts) error {
	if used, limit := f.used(); limit == 0 || used <= limit/10*9 {
		return nil
	}
	all, n := filling{}, make([]int, len(own))
	cursor := "0"
	for range keyPages {
		reply, err := p.call(ctx, "SCAN", cursor, "COUNT", pageSize)
		if ask.RefusalOf(err) != nil {
			return nil // it stays unknown
		}
		if err != nil {
			return err
		}
		page, _ := reply.([]any)
		if len(page) != 2 {
			return nil
		}
		keys, _ := page[1].([]any)
		for _, key := range keys {
			all.looked++
			if i := slices.IndexFunc(own, func(o family) bool { return strings.HasPrefix(ask.Text(key), o.begins) }); i >= 0 {
				all.ours++
				if n[i]++; n[i] > all.n {
					all.family, all.n = own[i], n[i]
				}
			}
		}
		if cursor = ask.Text(page[0]); cursor == "0" {
			break
		}
	}
	if all.ours > all.looked/2 {
		f.filling = &all
	}
	return nil
}

// checkMemory tells whether keys may soon be refused because memory is full.
func (f *facts) checkMemory(r *findings) {
	used, limit := f.used()
	if limit == 0 || used <= limit/10*9 || f.states[trouble.Full] != nil {
		return
	}
	kind := trouble.NearlyFull
	what, bytes, fewer := f.whatFills()
	if fewer != "" {
		kind = trouble.OursFill
	}
	r.add(kind, fill{"bytes": bytes, "fewer": fewer}, "%d of %d bytes of maxmemory are used%s", used, limit, what)
}

// whatFills says how many bytes are enough; and if most keys are ours, whose they are, and what
// makes them fewer.
func (f *facts) whatFills() (what, bytes, fewer string) {
	used, limit := f.used()
	bytes = strconv.FormatUint(2*max(used, limit), 10)
	if f.filling == nil {
		return "", bytes, ""
	}
	o := f.filling
	return fmt.Sprintf(": of %d keys that were looked at, %d are ours, most of them %s… (%s)", o.looked, o.ours, o.begins, o.are), bytes, o.fewer
}
