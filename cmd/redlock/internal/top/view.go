package top

import (
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/help"
	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/cmd/redlock/internal/tables"
	"github.com/redquorum/redquorum/cmd/redlock/internal/terminal"
	"github.com/redquorum/redquorum/internal/prose"
)

// fewestRows stay on a low screen, with their heading, where the masters would need all of it.
const fewestRows = 4

// arrange lays out what is shown now.
func (m *model) arrange() {
	if m.question == filtering {
		m.filter = m.input.Value()
	}
	m.choose()
	m.input.SetWidth(max(m.width-terminal.Columns(m.input.Prompt)-1, 1))
	room := max(m.height-1-len(m.foot()), 0) // below the head
	m.page.SetWidth(m.width)
	m.page.SetHeight(room)
	switch {
	case m.helping:
		m.page.SetContentLines(strings.Split(help.New().FullHelpView([][]key.Binding{keys}), "\n"))
	case m.lock != nil:
		m.page.SetContentLines(m.inspection())
	default:
		m.arrangeTable(room)
	}
}

func (m *model) arrangeTable(room int) {
	var words []survey.Row
	for i := range m.shown {
		words = append(words, m.shown[i].Words)
	}
	table := tables.Locks(words)
	table.Style = func(row []string, column int) terminal.Style {
		if column == tables.StateColumn {
			return lockStyles[row[column]]
		}
		return terminal.Plain
	}
	m.above = m.last.summary(m.width)
	var lines []string
	if len(words) > 0 {
		lines = table.Lines(m.width - len(unmarked))
		m.above = m.above[:min(len(m.above), max(room-min(len(lines), fewestRows)-1, 0))]
		m.above = append(m.above, "", terminal.Cut(unmarked+lines[0], m.width))
		lines = lines[1:]
	}
	height := max(room-len(m.above), 0)
	m.rows.SetWidth(m.width)
	m.rows.SetHeight(min(height, len(lines)))
	m.rows.SetContentLines(lines)
	m.rows.SetYOffset(min(max(m.rows.YOffset(), m.row-height+1), m.row))
}

// Marks in front of locks.
const (
	marked   = "> "
	unmarked = "  "
)

func (m *model) mark(c viewport.GutterContext) string {
	if c.Index == m.row {
		return marked
	}
	return unmarked
}

func (m *model) highlight(row int) lipgloss.Style { return lipgloss.NewStyle().Bold(row == m.row) }

// inspection is everything about the lock that is looked at. Why a master did not answer stands
// below the table, which has no room for it.
func (m *model) inspection() (lines []string) {
	told := *m.lock
	told.Nodes = slices.Clone(told.Nodes)
	sentences := []string{m.lock.Sentences()}
	for i := range told.Nodes {
		if n := &told.Nodes[i]; n.Error != "" {
			sentences = append(sentences, n.Endpoint+" does not count: "+n.Error)
			n.Error = ""
		}
	}
	return append(tables.Holders(&told, m.width), strings.Split(ansi.Wrap(strings.Join(sentences, "\n"), m.width, ""), "\n")...)
}

// View is the screen.
func (m *model) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(), "\n"))
	v.AltScreen = true
	return v
}

func (m *model) lines() []string {
	title, body := m.Title, m.page.View()
	switch {
	case m.helping:
		title = "redlock top: keys"
	case m.lock != nil:
		title = prose.Printable(m.lock.Name)
	default:
		body = strings.Join(append(slices.Clone(m.above), m.rows.View()), "\n")
	}
	return slices.Concat([]string{m.head(title)}, strings.Split(body, "\n"), m.foot())
}

// head is a title, when the masters were asked, and which keys there are.
func (m *model) head(title string) string {
	right := "? help  q quits"
	if !m.at.IsZero() {
		right = m.at.Format(time.TimeOnly) + "  " + right
	}
	title = terminal.Cut(title, m.width-len(right)-1)
	space := max(m.width-terminal.Columns(title)-len(right), 1)
	return terminal.Bold.Of(title) + strings.Repeat(" ", space) + terminal.Dim.Of(right)
}

// foot is what is being typed, how it ended, or which of the locks is chosen.
func (m *model) foot() (lines []string) {
	switch {
	case m.question == naming:
		const warning = "Its holder may be at work, and a second one could begin at once. If the holder is gone, type what to take away, as it is shown; Esc leaves it."
		lines = append(terminal.Wrap(terminal.Yellow.Of(warning), m.width), m.input.View())
	case m.question != nothing:
		lines = []string{m.input.View()}
	case m.lock != nil && !m.helping:
		for line := range strings.Lines(m.says) {
			lines = append(lines, terminal.Wrap(terminal.Bold.Of(line), m.width)...)
		}
	case !m.helping:
		lines = []string{terminal.Dim.Of(terminal.Cut(m.status(), m.width))}
	}
	return lines
}
