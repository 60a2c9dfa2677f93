package top

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"github.com/redquorum/redquorum/admin/survey"
	"github.com/redquorum/redquorum/cmd/redlock/internal/cli"
	"github.com/redquorum/redquorum/internal/prose"
)

// question is what is being typed.
type question int

const (
	nothing question = iota
	filtering
	naming    // what is to be released
	reasoning // why
)

// longestReason is enough for a sentence. The log cuts long ones.
const longestReason = 500

// forcing is how far somebody has come with taking a lock away.
//
//	nothing ──u──▶ naming ──name──▶ reasoning ──reason──▶ releasing ──answer──▶ nothing
//	   ▲              └────anything else───┴──▶ nothing
type forcing struct {
	question  question
	input     textinput.Model
	before    survey.Inspection // the lock, as it was when somebody decided
	target    survey.Holding    // one of its [targets]
	releasing bool
	says      string // how it ended
}

// ask begins to read a line.
func (m *model) ask(q question, prompt, value string) tea.Cmd {
	m.question, m.input.Prompt, m.input.CharLimit = q, prompt, longestReason
	if q == naming {
		m.input.CharLimit = 0
	}
	m.input.SetValue(value)
	return m.input.Focus()
}

// answer reads a key of a line.
func (m *model) answer(k tea.KeyPressMsg) (next tea.Cmd) {
	switch asked := m.question; {
	case k.String() != "esc" && k.String() != "enter":
		m.input, next = m.input.Update(k)
		return next
	case k.String() == "esc" && asked == filtering:
		m.filter, m.question = "", nothing
	case k.String() == "esc":
		m.refuse("cancelled")
	case asked == naming:
		return m.named(m.input.Value())
	case asked == reasoning:
		return m.reasoned(strings.TrimSpace(m.input.Value()))
	default:
		m.question = nothing
	}
	m.input.Blur()
	return nil
}

func (m *model) refuse(format string, args ...any) {
	m.question, m.says = nothing, "Nothing was released: "+fmt.Sprintf(format, args...)+"."
	m.input.Blur()
}

func (m *model) beginToForce() tea.Cmd {
	m.says, m.before = "", *m.lock
	return m.ask(naming, "Name: ", "")
}

// targets are what can be released: the lock, or the permits of a semaphore.
func targets(i *survey.Inspection) []survey.Holding {
	if i.Kind == survey.KindSemaphore && i.Verdict == "free" {
		return i.Permits
	}
	return []survey.Holding{{Name: i.Name, Value: i.Value}}
}

// named goes on if what was typed is the name, as it is shown.
func (m *model) named(typed string) tea.Cmd {
	all := targets(&m.before)
	at := slices.IndexFunc(all, func(t survey.Holding) bool { return prose.Printable(t.Name) == typed })
	if at < 0 {
		m.refuse(`"%s" was typed, and not "%s"`, prose.Printable(typed), prose.Printable(all[0].Name))
		return nil
	}
	m.target = all[at]
	return m.ask(reasoning, "Why? redlock log shows it: ", "")
}

// reasoned releases the lock, unless it has another holder than the one that somebody decided to
// take it from.
func (m *model) reasoned(reason string) tea.Cmd {
	same := func(t survey.Holding) bool { return t.Name == m.target.Name && t.Value == m.target.Value }
	switch {
	case reason == "":
		m.refuse("a reason is needed")
		return nil
	case !slices.ContainsFunc(targets(m.lock), same):
		m.refuse("its holder has changed meanwhile")
		return nil
	}
	m.question, m.releasing, m.says = nothing, true, "Releasing…"
	m.input.Blur()
	name, digest := m.target.Name, m.target.Digest()
	if name == m.before.Name {
		digest = m.before.Digest
	}
	return m.do(func(ctx context.Context) tea.Msg {
		r, err := m.Force(ctx, name, digest, reason)
		return released{r, err}
	})
}

// released is the end of a release.
type released struct {
	survey.Release
	err error
}

func (m *model) isReleased(r released) {
	m.releasing = false
	switch {
	case r.err != nil:
		m.says = cli.Explain(r.err)
	case r.Unlogged != nil:
		m.says = r.Result() + "\nThe log does not tell of it: " + cli.Explain(r.Unlogged)
	default:
		m.says = r.Result()
	}
}
