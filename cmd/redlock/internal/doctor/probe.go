package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redquorum/redquorum/internal/ask"
	"github.com/redquorum/redquorum/internal/pipeline"
	"github.com/redquorum/redquorum/internal/trouble"
)

const (
	pings        = 5               // enough for a median
	timeSamples  = 3               // the one with the shortest round trip counts
	trialKeyLife = 5 * time.Second // of the trial key, in case it is not deleted
)

// facts are what a master told us. What it did not tell is missing from the maps.
type facts struct {
	endpoint  string
	err       error // why there is no connection, or it failed; then the rest is incomplete
	runID     string
	reached   []string // the run ids of the servers that further connections have reached
	filling   *filling // what of ours fills its memory; nil if that is not known, or not so
	addresses []string // of the endpoint's name, if it has several of one kind
	product   string
	version   string
	durable   bool
	unloaded  string        // why a restart loads only a part of its log
	untried   bool          // whether it loads all is not known
	barred    error         // why its vote does not count
	barredFor time.Duration // as far as known
	info      map[string]string
	config    map[string]string
	denied    map[string]error // why each command was refused
	// Why a script could not touch a key that it derives; nil if it could.
	derived   error
	outside   error             // why the user may not use keys like those of the locks, if no lock was named
	key       string            // of the lock that was tried; "" if there is none
	unusable  error             // why that key cannot be used
	lasting   bool              // that key does not expire
	lacks     map[string][]lack // the rights that are missing for each kind, by its check
	roundTrip time.Duration     // the median
	slowest   time.Duration
	offset    time.Duration // its clock minus ours
	offsetOK  bool
	doubt     time.Duration // in the offset

	now         time.Time
	maxTTL      time.Duration
	certEnds    time.Time // of the server; zero without TLS
	ownCertEnds time.Time // of ours; zero if there is none
	user        string    // that we connect as
	pattern     string    // of the keys that are tried

	marker     string                 // content of the memory key
	unreadable error                  // why the marker could not be read
	unwritable error                  // why the marker could not be written
	states     map[trouble.Kind]error // what keeps the server from doing what it is asked, and its words
	oursIsOff  bool                   // a majority of the masters agree with its clock, and not with ours
	byList     error                  // why the list of the cluster's members cannot be used
	missing    bool                   // a master is missing
	allNew     bool                   // no master is missing, and all are new
	anyVotes   bool                   // this or another master votes
}

// probe examines one master.
type probe struct {
	ask.Master
	prefix string
	name   string // of the lock whose keys are tried; "" for keys that nobody uses
}

// connect waits until the node is connected, or has failed to connect.
func (p *probe) connect(ctx context.Context, f *facts) bool {
	f.endpoint, f.user, f.pattern, f.now = p.Node.Endpoint(), p.Node.User(), p.pattern(), p.Clock.Wall()
	if f.err = awaitUp(ctx, p.Node); f.err != nil {
		if ctx.Err() != nil {
			f.err = fmt.Errorf("no connection within %v", bound)
		}
		return false
	}
	id, _ := p.Node.Identity()
	f.runID, f.product, f.version, f.durable = id.RunID, id.Product, id.Version, id.Durable
	f.unloaded, f.untried = id.Unloaded, id.UnknownLoading
	f.certEnds, f.ownCertEnds = id.CertEnds, id.OwnCertEnds
	return true
}

// ask collects all facts. If a master stops answering, that becomes its error.
func (p *probe) ask(ctx context.Context, f *facts) {
	f.info, f.config, f.denied = map[string]string{}, map[string]string{}, map[string]error{}
	for _, step := range []func(context.Context, *facts) error{
		p.askOthers, p.askMemory, p.askPings, p.askTime, p.askInfo, p.askKeys, p.askConfig, p.tryName, p.tryDerivedKey, p.tryKinds, p.tryCommands,
	} {
		if err := step(ctx, f); err != nil {
			f.err = err
			return
		}
	}
}

func (p *probe) askPings(ctx context.Context, f *facts) error {
	var took []time.Duration
	for range pings {
		begin := p.Clock.Now()
		if _, err := p.call(ctx, "PING"); err != nil {
			if f.refused("PING", err) {
				return nil
			}
			return err
		}
		took = append(took, p.Clock.Now().Sub(begin))
	}
	slices.Sort(took)
	f.roundTrip, f.slowest = took[len(took)/2], took[len(took)-1]
	return nil
}

// askTime compares the clocks. The server read its clock at some moment of the round trip. We
// assume the middle, which is off by at most half of it.
func (p *probe) askTime(ctx context.Context, f *facts) error {
	for range timeSamples {
		begin := p.Clock.Now()
		reply, err := p.call(ctx, "TIME")
		took, wall := p.Clock.Now().Sub(begin), p.Clock.Wall()
		if err != nil {
			if f.refused("TIME", err) {
				return nil
			}
			return err
		}
		server, ok := ask.TimeOf(reply)
		if ok && (!f.offsetOK || took/2 < f.doubt) {
			f.offset, f.doubt, f.offsetOK = server.Sub(wall.Add(-took/2)), took/2, true
		}
	}
	return nil
}

func (p *probe) askInfo(ctx context.Context, f *facts) error {
	return p.askAll(ctx, f, []request{
		{"INFO", []any{"server"}}, {"INFO", []any{"replication"}}, {"INFO", []any{"memory"}}, {"INFO", []any{"persistence"}},
	}, func(reply any) { ask.Fields(reply, f.info) })
}

func (p *probe) askConfig(ctx context.Context, f *facts) error {
	requests := []request{{"CONFIG", []any{"GET", "*append*"}}, {"CONFIG", []any{"GET", "aof-load-truncated"}}, {"CONFIG", []any{"GET", "save"}}, {"CONFIG", []any{"GET", "aclfile"}}}
	if f.untried {
		requests = append(requests, request{"ACL", []any{"DRYRUN", "default", "PING"}})
	}
	return p.askAll(ctx, f, requests, func(reply any) {
		pairs, _ := reply.([]any)
		for i := 0; i+1 < len(pairs); i += 2 {
			f.config[ask.Text(pairs[i])] = pipeline.PrintableLine(ask.Text(pairs[i+1]))
		}
	})
}

// request is a command.
type request struct {
	name string
	args []any
}

// command returns the name of what a rule allows.
func (r *request) command() string {
	switch r.name {
	case "CONFIG", "ACL", "CLIENT", "PUBSUB":
		return fmt.Sprint(r.name, " ", r.args[0])
	}
	return r.name
}

// askAll sends all requests at once, and takes the replies in order. It notes what is refused.
func (p *probe) askAll(ctx context.Context, f *facts, requests []request, take func(reply any)) error {
	var sent []ask.Reply
	for _, q := range requests {
		sent = append(sent, p.Send(q.name, q.args...))
	}
	for i, w := range sent {
		reply, err := w.Wait(ctx)
		switch {
		case err == nil:
			take(reply)
		case p.isTrialRefused(f, ask.RefusalOf(err)): // the command itself is allowed
		case !f.refused(requests[i].command(), err):
			return err
		}
	}
	return nil
}

// refused reports whether an error means that the server refused a command, and notes it.
func (f *facts) refused(command string, err error) bool {
	refusal := ask.RefusalOf(err)
	if refusal != nil && f.denied[command] == nil {
		f.denied[command] = refusal
	}
	return refusal != nil
}

// call sends a command and waits for its reply.
func (p *probe) call(ctx context.Context, name string, args ...any) (any, error) {
	return p.Send(name, args...).Wait(ctx)
}

// run runs a script on one key. A refusal is no error.
func (p *probe) run(ctx context.Context, script *pipeline.Script, key string) (refusal, err error) {
	_, err = p.Run(script, key).Wait(ctx)
	if refusal := ask.RefusalOf(err); refusal != nil {
		return refusal, nil
	}
	return nil, err
}
