package dashboard

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redquorum/redquorum/admin"
	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/internal/guard"
	"github.com/redquorum/redquorum/internal/prose"
	"github.com/redquorum/redquorum/redlock"
)

// longestName is that of a lock, in bytes.
const longestName = 4096

// page is what the templates show.
type page struct {
	View, Title string
	Live        string // the address of its stream
	Asked, At   string // who was asked, and when
	Problem     string // why too little is known; empty if all is well
	Notes       []string
	User        string
	Force       bool
	Queues      bool // there are some
	Content     any
}

// view makes a page.
type view struct {
	name, title string
	shows       []subject
	ofQueues    bool // there are some
	fill        func(h *Handler, s *snapshot, q url.Values, p *page)
}

// views are the pages by their names.
var views = map[string]*view{}

func init() { // not a literal: the pages link to one another
	for _, v := range []*view{
		{"masters", "Masters", nil, false, (*Handler).fillMasters},
		{"locks", "Locks", []subject{locks}, false, (*Handler).fillLocks},
		{"lock", "Lock", nil, false, (*Handler).fillLock},
		{"members", "Members", []subject{membership, events}, false, (*Handler).fillMembers},
		{"elections", "Elections", []subject{locks}, false, (*Handler).fillElections},
		{"log", "Log", []subject{events}, false, (*Handler).fillLog},
		{"queues", "Queues", []subject{counted}, true, (*Handler).fillQueues},
		{"queue", "Queue", nil, true, (*Handler).fillQueue},
		{"letter", "Dead letter", nil, true, (*Handler).fillLetter},
	} {
		views[v.name] = v
	}
}

// errBadRequest says that nobody can ask like that.
var errBadRequest = errors.New("this address makes no sense")

// subjects returns what a page with these parameters shows.
func (h *Handler) subjects(v *view, q url.Values) ([]subject, error) {
	name := q.Get("name")
	switch v.name {
	case "lock":
	case "queue", "letter":
		if h.queue(name) == nil {
			return nil, errNoQueue
		}
		return []subject{tasksOf(name)}, nil
	default:
		return v.shows, nil
	}
	if name == "" || len(name) > longestName {
		return nil, fmt.Errorf("%w: the name of a lock has 1 to %d bytes", errBadRequest, longestName)
	}
	return []subject{lockOf(name), historyOf(name)}, nil
}

// refusal is the status for what nobody can ask.
func refusal(err error) int {
	if errors.Is(err, errNoQueue) {
		return http.StatusNotFound
	}
	return http.StatusBadRequest
}

// make returns a page as it is now.
func (h *Handler) make(r *http.Request, v *view, s *snapshot) *page {
	q := r.URL.Query()
	p := &page{View: v.name, Title: v.title, User: guard.User(r), Force: h.settings.force, Queues: len(h.settings.queues) > 0, Asked: "masters", At: "never"}
	p.Live = "live/" + v.name
	if r.URL.RawQuery != "" {
		p.Live += "?" + q.Encode()
	}
	if !s.at.IsZero() {
		p.At = s.at.UTC().Format(time.TimeOnly)
	}
	p.tellVotes(s)
	v.fill(h, s, q, p)
	return p
}

// page answers with a page.
func (h *Handler) page(w http.ResponseWriter, r *http.Request, v *view) {
	shown, err := h.subjects(v, r.URL.Query())
	if err != nil {
		h.fail(w, r, refusal(err), err.Error())
		return
	}
	s, err := h.watch.get(r.Context(), shown...)
	if err != nil {
		w.Header().Set("Retry-After", "3")
		h.fail(w, r, http.StatusServiceUnavailable, err.Error())
		return
	}
	write(w, http.StatusOK, "layout", h.make(r, v, s))
}

// fail answers with a page that says what is wrong, or with JSON below /api.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, status int, why string) {
	if guard.IsAPI(r) {
		guard.Error(w, status, errors.New(why))
		return
	}
	write(w, status, "layout", &page{View: "error", Title: http.StatusText(status), User: guard.User(r), Content: why})
}

//go:embed pages
var pages embed.FS

// templates are parsed for the first page: a program that has the package, as the command has, may
// show none.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"print": prose.Printable, "link": lockLink, "clock": clockText, "short": survey.Shortened, "ttl": survey.LeftText,
		"named": survey.Named, "plural": prose.Plural, "time": timeText, "cut": cutText,
	}).ParseFS(pages, "pages/*.html"))
})

func write(w http.ResponseWriter, status int, name string, p *page) {
	var b bytes.Buffer
	if err := templates().ExecuteTemplate(&b, name, p); err != nil {
		guard.Text(w, http.StatusInternalServerError, "The page could not be made.\n")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = b.WriteTo(w) //nolint:errcheck // the client is gone
}

// lockLink is the address of the page of a lock.
func lockLink(name string) string { return "lock?" + url.Values{"name": {name}}.Encode() }

func clockText(millis int64) string {
	return time.UnixMilli(millis).UTC().Format("2006-01-02 15:04:05")
}

func timeText(at time.Time) string { return at.Format(time.DateTime) }

// cutText is a text that others have stored, printable, and not too long for a table.
func cutText(text string) string {
	const most = 200
	if runes := []rune(prose.Printable(text)); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return prose.Printable(text)
}

func bytesText(n int64) string {
	switch {
	case n < 0:
		return "-"
	case n < 1<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d MiB", n>>20)
	}
}

// masterRow is a master.
type masterRow struct {
	Endpoint, State, Why, Until, Memory, Server, Ping, Clock, Used, Commands string
}

func (h *Handler) fillMasters(s *snapshot, _ url.Values, p *page) {
	var rows []masterRow
	for i := range s.stats.Nodes {
		if admin.HasLeft(&s.stats.Nodes[i]) {
			continue
		}
		var vitals admin.Vitals
		if i < len(s.vitals) {
			vitals = s.vitals[i]
		}
		rows = append(rows, newMasterRow(&s.stats.Nodes[i], &vitals, s.at))
	}
	p.Content = map[string]any{"Rows": rows, "Stats": &s.stats}
}

func newMasterRow(n *redlock.NodeStats, vitals *admin.Vitals, now time.Time) masterRow {
	row := masterRow{
		Endpoint: n.Endpoint, Until: "-", Memory: "-", Ping: "-", Clock: "-", Used: "-", Commands: "-",
		Server: cmp.Or(strings.TrimSpace(prose.Printable(n.Product+" "+n.Version)), "-"),
	}
	row.State, row.Why = survey.Standing(n)
	switch {
	case row.State != survey.MemberVotes:
	case vitals.Err != nil:
		row.Why = prose.Readable(vitals.Err.Error())
	case vitals.MaxMemory > 0 && vitals.Memory >= vitals.MaxMemory:
		row.Why = "its memory is full: it grants no locks"
	case vitals.MaxMemory > 0 && vitals.Memory >= vitals.MaxMemory/10*9:
		row.Why = "its memory is nearly full"
	}
	if n.QuarantinedFor > 0 {
		row.Until = now.Add(n.QuarantinedFor).UTC().Format(time.TimeOnly)
	}
	if is := map[string]string{"active": "intact", "new": "new", "lost": "lost"}[n.Memory]; is != "" {
		row.Memory = is
	}
	if vitals.Err != nil || vitals.RoundTrip == 0 {
		return row
	}
	row.Ping = fmt.Sprintf("%.1f ms", float64(vitals.RoundTrip)/float64(time.Millisecond))
	if vitals.HasClock {
		row.Clock = fmt.Sprintf("%+.1f ms", float64(vitals.Clock)/float64(time.Millisecond))
	}
	if row.Used = bytesText(vitals.Memory); vitals.MaxMemory > 0 {
		row.Used += " of " + bytesText(vitals.MaxMemory)
	}
	if vitals.Commands >= 0 {
		row.Commands = strconv.FormatInt(vitals.Commands, 10)
	}
	return row
}

// column is one of the table of locks.
type column struct{ Title, Link, Sorted string }

// lockStates are those that a lock can be in.
var lockStates = []string{"held", "split", "free", "unknown"}

// locksContent is the table of locks.
type locksContent struct {
	Choice       choice
	Columns      []column
	Rows         []lockRow
	Count        string
	First, Total int
	Pages        int
	Before, Next string // addresses; empty if there is none
	States       []string
}

type lockRow struct {
	survey.Row
	Link, Token string
}

var columns = []struct{ title, order string }{
	{"Name", "name"},
	{"Kind", "kind"},
	{"State", "state"},
	{"Holder", "holder"},
	{"Held for", "held"},
	{"Time left", "left"},
	{"Token", "token"},
	{"Waiting", "waiting"},
	{"Masters", ""},
}

// choiceOf reads what the address chooses. What makes no sense is left out.
func choiceOf(q url.Values) choice {
	c := choice{Query: q.Get("q"), Owner: q.Get("owner"), State: q.Get("state"), Sort: q.Get("sort"), Descending: q.Get("down") != ""}
	if survey.Orders[c.Sort] == nil {
		c.Sort = "name"
	}
	c.Page, _ = strconv.Atoi(q.Get("page")) //nolint:errcheck // then it is the first one
	return c
}

// link is the address of the table with a choice.
func (c choice) link() string {
	q := url.Values{}
	set := func(key, value, usual string) {
		if value != usual {
			q.Set(key, value)
		}
	}
	set("q", c.Query, "")
	set("owner", c.Owner, "")
	set("state", c.State, "")
	set("sort", c.Sort, "name")
	if c.Descending {
		q.Set("down", "1")
	}
	set("page", strconv.Itoa(c.Page), "1")
	return "locks?" + q.Encode()
}

func (h *Handler) fillLocks(s *snapshot, q url.Values, p *page) {
	c := choiceOf(q)
	shown, total := c.choose(s.locks)
	content := &locksContent{
		Choice: c, Total: total, First: (c.Page-1)*perPage + 1, Pages: (total + perPage - 1) / perPage, States: lockStates,
	}
	var rows []subject
	for _, e := range shown {
		rows = append(rows, lockOf(e.Name))
		row := lockRow{Row: e.Words, Link: lockLink(e.Name), Token: "-"}
		if e.Token != 0 {
			row.Token = strconv.FormatInt(e.Token, 10)
		}
		content.Rows = append(content.Rows, row)
	}
	_, _, _ = h.watch.want(rows...) //nolint:errcheck // what is too much is as old as the list
	for _, col := range columns {
		one := column{Title: col.title}
		if col.order != "" {
			other := c
			other.Sort, other.Page, other.Descending = col.order, 1, col.order == c.Sort && !c.Descending
			one.Link = other.link()
		}
		if col.order == c.Sort {
			one.Sorted = map[bool]string{false: "ascending", true: "descending"}[c.Descending]
		}
		content.Columns = append(content.Columns, one)
	}
	if before := c; c.Page > 1 {
		before.Page--
		content.Before = before.link()
	}
	if next := c; c.Page < content.Pages {
		next.Page++
		content.Next = next.link()
	}
	states, waiting, _ := s.counts()
	content.Count = survey.CountText(states, waiting, s.listing.Complete)
	p.Content = content
	p.listingNotes(s)
}

// counts counts the locks by their states, and those who wait, and says for how long the oldest
// has been held.
func (s *snapshot) counts() (states map[string]int, waiting int, oldest time.Duration) {
	states = map[string]int{}
	for _, e := range s.locks {
		states[e.Words.State]++
		waiting += e.Waiting()
		if e.Kind != survey.KindElection { // leaders stay
			oldest = max(oldest, time.Duration(e.Held)*time.Millisecond)
		}
	}
	return states, waiting, oldest
}

// listingNotes says what may be missing from a list of locks, and how old it is.
func (p *page) listingNotes(s *snapshot) {
	if s.listedAt.IsZero() {
		p.Notes = append(p.Notes, "The locks have not been listed yet.")
		return
	}
	if err := s.listing.Failure(); err != nil {
		p.Notes = append(p.Notes, prose.Readable(err.Error()))
	} else if s.listErr != nil {
		p.Notes = append(p.Notes, "Too few masters vote: who holds a lock is unknown.")
	}
	p.Notes = append(append(p.Notes, s.listing.Bounded()...), s.listing.Missing()...)
	if age := s.at.Sub(s.listedAt); age > 2*interval {
		p.Notes = append(p.Notes, fmt.Sprintf("There are many locks: they were listed %s ago. Those on this page are asked about every second.",
			age.Round(time.Second)))
	}
}

// lockContent is one lock.
type lockContent struct {
	*survey.Inspection
	Says   []string
	State  string
	Token  int64
	Nodes  []lockNode
	Log    []logRow
	Action string // where the form goes; empty: there is no form
	Target string // what the form releases
	Result []string
}

// lockNode is what one master says of a lock.
type lockNode struct {
	survey.NodeInspection
	Says string
}

func (h *Handler) fillLock(s *snapshot, q url.Values, p *page) {
	name := q.Get("name")
	e := s.named[name]
	if e == nil {
		p.Title, p.Problem = prose.Printable(name), "The masters have not answered yet."
		e = newEntry(&survey.Inspection{Name: name, Verdict: "unknown", Kind: survey.KindLock}, 1)
	}
	p.Title = prose.Printable(name)
	content := &lockContent{Inspection: e.Inspection, Says: strings.Split(e.Sentences(), "\n"), State: e.Words.State, Token: e.Token}
	value := e.Value
	if e.Probably != nil {
		value = e.Probably.Value
	}
	for _, n := range e.Nodes {
		says := "holds it"
		switch {
		case n.Error != "":
			says = "does not count"
		case n.Value == "" && n.TTLMillis == 0:
			says = "has nothing"
		case n.Value != value:
			says = "has another value"
		}
		content.Nodes = append(content.Nodes, lockNode{n, says})
	}
	history := s.histories[name]
	content.Log = logRows(history.Events.Events)
	if history.err != nil {
		p.Notes = append(p.Notes, "Entries of the history may be missing: "+prose.Readable(history.err.Error()))
	}
	if p.Force && e.NoLock == "" && (e.Kind != survey.KindSemaphore || e.Verdict != "free") {
		content.Action, content.Target = "force?"+url.Values{"name": {name}}.Encode(), "what masters have of it, as nobody is known to hold it."
		if e.Verdict == "held" {
			content.Target = "the lock of " + e.Holder() + "."
		}
	}
	content.Result = resultIn(q)
	p.Content = content
}

func (h *Handler) fillElections(s *snapshot, _ url.Values, p *page) {
	var all []*entry
	for _, e := range s.named {
		if e.Kind == survey.KindElection {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b *entry) int { return survey.Natural(a.Name, b.Name) })
	var rows []*survey.Inspection
	for _, e := range all[:min(len(all), perPage)] {
		rows = append(rows, e.Inspection)
	}
	p.Content = map[string]any{"Rows": rows, "More": len(all) - len(rows)}
	p.listingNotes(s)
}

// logRow is a line of the log.
type logRow struct {
	survey.Event
	Link string // of the lock; empty: none
}

// logRows returns entries, the newest first.
func logRows(entries []survey.Event) (rows []logRow) {
	for _, e := range slices.Backward(entries) {
		rows = append(rows, logRow{Event: e})
	}
	return rows
}

// mostLogged is how many entries the log shows.
const mostLogged = 200

func (h *Handler) fillLog(s *snapshot, _ url.Values, p *page) {
	rows := logRows(s.events.Events)
	rows = rows[:min(len(rows), mostLogged)]
	for i := range rows {
		if name, ours := strings.CutPrefix(rows[i].Key, h.settings.keyPrefix); ours && name != "" {
			rows[i].Link = lockLink(name)
		}
	}
	p.Content = rows
	if err := s.eventsErr; err != nil {
		p.Notes = append(p.Notes, "Entries may be missing: "+prose.Readable(err.Error()))
	}
}
