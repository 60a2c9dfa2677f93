// Package top shows locks and masters on a terminal, again and again.
package top

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textinput"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"

	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/internal/prose"
)

// Config says what is shown, and who is asked.
type Config struct {
	Title    string
	Interval time.Duration // between two looks

	// Look asks about all locks and the masters, or about one lock, if a name is given.
	Look func(ctx context.Context, name string) Snapshot

	// Force takes a lock away, see [survey.Force]. Nil if nobody may.
	Force func(ctx context.Context, name, digest, reason string) (survey.Release, error)
}

// model is what the terminal shows, and what keys do to it. Only one look is under way: with its
// end begins the pause before the next one.
type model struct {
	Config
	do func(work func(context.Context) tea.Msg) tea.Cmd // calls the functions of the Config

	width, height int
	at            time.Time // of the last look
	last          Snapshot  // of all locks
	locks         []survey.Entry
	order         int // of orders
	reversed      bool
	filter        string         // what a name or a holder contains
	shown         []survey.Entry // of locks, as order and filter say
	chosen        string         // the name of one of these
	row           int            // its place
	above         []string       // lines above the rows
	rows          viewport.Model

	lock    *survey.Inspection // that is looked at; nil: all
	helping bool
	page    viewport.Model // of the lock, or with the keys

	forcing
}

func newModel(c Config) *model {
	m := &model{Config: c, rows: viewport.New(), page: viewport.New()}
	m.input, m.last.Count = textinput.New(), "Asking the masters…"
	m.rows.LeftGutterFunc, m.rows.StyleLineFunc = m.mark, m.highlight
	return m
}

// looked is the end of a look, and due that of the pause behind it.
type (
	looked struct {
		name string // empty: at all locks
		Snapshot
	}
	due struct{}
)

func (m *model) look() tea.Cmd {
	name := ""
	if m.lock != nil {
		name = m.lock.Name
	}
	return m.do(func(ctx context.Context) tea.Msg { return looked{name, m.Look(ctx, name)} })
}

// Init begins the first look.
func (m *model) Init() tea.Cmd { return m.look() }

// Update changes what is shown.
func (m *model) Update(message tea.Msg) (_ tea.Model, next tea.Cmd) {
	switch message := message.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = message.Width, message.Height
	case looked:
		m.see(message)
		next = tea.Tick(m.Interval, func(time.Time) tea.Msg { return due{} })
	case due:
		next = m.look()
	case released:
		m.isReleased(message)
	case tea.KeyPressMsg:
		next = m.press(message)
	default: // pasted, or the cursor blinks
		m.input, next = m.input.Update(message)
	}
	m.arrange()
	return m, next
}

// see takes over what was seen, unless it is about a lock that is looked at no more.
func (m *model) see(l looked) {
	switch {
	case l.name == "":
		m.last, m.at, m.locks = l.Snapshot, l.At, nil
		for i := range l.Locks {
			m.locks = append(m.locks, survey.NewEntry(&l.Locks[i]))
		}
	case m.lock != nil && m.lock.Name == l.name && len(l.Locks) == 1:
		m.lock, m.at = &l.Locks[0], l.At
	}
}

func bind(keys, shown, does string) key.Binding {
	return key.NewBinding(key.WithKeys(strings.Fields(keys)...), key.WithHelp(shown, does))
}

// Keys, as the help shows them.
var (
	keyUp       = bind("up k", "↑ k", "a lock or line up")
	keyDown     = bind("down j", "↓ j", "and down")
	keyPageUp   = bind("pgup b", "PgUp b", "a page up")
	keyPageDown = bind("pgdown space f", "PgDn f", "and down")
	keyFirst    = bind("home g", "Home g", "to the first")
	keyLast     = bind("end G", "End G", "to the last")
	keyOpen     = bind("enter", "Enter", "look at the lock: its masters, holders and waiters")
	keyFilter   = bind("/", "/", "only locks with a text in their name or holder")
	keySort     = bind("s", "s", "sort by the next column")
	keyReverse  = bind("r", "r", "in reverse")
	keyUnlock   = bind("u", "u", "take the lock that is looked at from its holder (--allow-force)")
	keyBack     = bind("esc", "Esc", "back to all locks")
	keyHelp     = bind("?", "?", "these keys, and back")
	keyQuit     = bind("q Q ctrl+d", "q Ctrl-C", "end")

	keys = []key.Binding{
		keyUp, keyDown, keyPageUp, keyPageDown, keyFirst, keyLast, keyOpen, keyFilter, keySort, keyReverse, keyUnlock, keyBack, keyHelp, keyQuit,
	}
)

// press does what a key is for.
func (m *model) press(k tea.KeyPressMsg) (next tea.Cmd) {
	switch {
	case k.String() == "ctrl+c":
		return tea.Quit
	case m.releasing: // the answer must be seen
	case m.question != nothing:
		return m.answer(k)
	case key.Matches(k, keyQuit):
		return tea.Quit
	case key.Matches(k, keyHelp):
		m.helping = !m.helping
		m.page.GotoTop()
	case key.Matches(k, keyBack) && m.helping:
		m.helping = false
	case key.Matches(k, keyBack):
		m.lock, m.says, m.filter = nil, "", ""
	case m.helping || m.lock != nil:
		return m.pressInPage(k)
	default:
		return m.pressInTable(k)
	}
	return nil
}

func (m *model) pressInPage(k tea.KeyPressMsg) (next tea.Cmd) {
	switch {
	case key.Matches(k, keyFirst):
		m.page.GotoTop()
	case key.Matches(k, keyLast):
		m.page.GotoBottom()
	case key.Matches(k, keyUnlock):
		if m.Force != nil && !m.helping {
			return m.beginToForce()
		}
	default:
		m.page, next = m.page.Update(k)
	}
	return next
}

func (m *model) pressInTable(k tea.KeyPressMsg) tea.Cmd {
	switch {
	case key.Matches(k, keyUp):
		m.move(-1)
	case key.Matches(k, keyDown):
		m.move(1)
	case key.Matches(k, keyPageUp):
		m.move(-m.rows.Height())
	case key.Matches(k, keyPageDown):
		m.move(m.rows.Height())
	case key.Matches(k, keyFirst):
		m.move(-len(m.shown))
	case key.Matches(k, keyLast):
		m.move(len(m.shown))
	case key.Matches(k, keySort):
		m.order = (m.order + 1) % len(orders)
	case key.Matches(k, keyReverse):
		m.reversed = !m.reversed
	case key.Matches(k, keyFilter):
		return m.ask(filtering, "Only locks with: ", m.filter)
	case key.Matches(k, keyOpen) && len(m.shown) > 0:
		m.lock = m.shown[m.row].Inspection // as it was; the next look asks about it alone
		m.page.GotoTop()
	}
	return nil
}

func (m *model) move(by int) {
	if n := len(m.shown); n > 0 {
		m.chosen = m.shown[min(max(m.row+by, 0), n-1)].Name
	}
}

// orders are those of [survey.Orders] that columns have, behind the usual one.
var orders = []string{"interest", "name", "kind", "state", "holder", "held", "left", "waiting"}

// byInterest sorts what is waited for first, then what is not held in full.
func byInterest(a, b *survey.Entry) int {
	isOdd := func(e *survey.Entry) int {
		if e.Words.State == "held" {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(b.Waiting(), a.Waiting()), cmp.Compare(isOdd(a), isOdd(b)))
}

// choose filters and sorts. The same lock stays chosen; if it is gone, the one in its place is.
func (m *model) choose() {
	m.shown = nil
	wanted := strings.ToLower(m.filter)
	for _, e := range m.locks {
		if strings.Contains(strings.ToLower(e.Words.Name+"\n"+e.Words.Holder), wanted) {
			m.shown = append(m.shown, e)
		}
	}
	order := byInterest
	if m.order > 0 {
		order = survey.Orders[orders[m.order]]
	}
	slices.SortStableFunc(m.shown, func(a, b survey.Entry) int { return order(&a, &b) })
	if m.reversed {
		slices.Reverse(m.shown)
	}
	if at := slices.IndexFunc(m.shown, func(e survey.Entry) bool { return e.Name == m.chosen }); at >= 0 {
		m.row = at
	}
	m.row = max(min(m.row, len(m.shown)-1), 0)
	m.move(0)
}

// status says which of the locks is chosen, and from which ones.
func (m *model) status() string {
	text := fmt.Sprintf("Lock %d of %d, by %s", m.row+1, len(m.shown), orders[m.order])
	if len(m.shown) == 0 {
		text = "No locks"
	}
	if m.reversed {
		text += ", in reverse"
	}
	if m.filter != "" {
		text += fmt.Sprintf(", with \"%s\"", prose.Printable(m.filter))
	}
	return text
}
