package chat

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
)

// Measures of the screen, in cells.
const (
	listWidth = 20 // of the list of conversations, without its border
	listFrom  = 60 // a narrower screen has no list
	maxName   = 20
)

// Colours are the terminal's own sixteen, so that they suit its background.
var (
	faint   = lipgloss.NewStyle().Foreground(lipgloss.BrightBlack)
	strong  = lipgloss.NewStyle().Bold(true)
	alert   = lipgloss.NewStyle().Foreground(lipgloss.Red)
	good    = lipgloss.NewStyle().Foreground(lipgloss.Green)
	waits   = lipgloss.NewStyle().Foreground(lipgloss.Yellow)
	reverse = lipgloss.NewStyle().Reverse(true)
)

// View is the whole screen: list and log, the last answer, the input line, and the
// status line.
func (m *model) View() tea.View {
	w, h := max(m.width, 1), max(m.height, 1)
	var rows []string
	log := m.logRows()
	if w >= listFrom {
		for i, line := range m.listRows(len(log)) {
			rows = append(rows, line+faint.Render("│")+log[i])
		}
	} else {
		rows = log
	}
	rows = append(rows, m.sayRows()...)
	m.input.SetWidth(max(1, w-lipgloss.Width(m.input.Prompt)-1))
	if h > 1 {
		rows = append(rows, fit(m.input.View(), w))
	}
	rows = append(rows, m.statusRow(w))
	v := tea.NewView(strings.Join(rows, "\n"))
	v.AltScreen, v.ReportFocus = true, true
	if cursor := m.input.Cursor(); cursor != nil && h > 1 {
		cursor.Color = nil // the terminal's own
		cursor.Y = len(rows) - 2
		cursor.X = min(cursor.X, w-1)
		v.Cursor = cursor
	}
	return v
}

// logHeight is how many rows the log has.
func (m *model) logHeight() int { return max(0, m.height-2-len(m.sayRows())) }

func (m *model) logWidth() int {
	if m.width >= listFrom {
		return m.width - listWidth - 1
	}
	return max(1, m.width)
}

// logRows is the part of the log that is on the screen, filled up at the top.
func (m *model) logRows() []string {
	height := m.logHeight()
	lines := m.logLines()
	end := max(0, len(lines)-m.scroll)
	lines = lines[max(0, end-height):end]
	return append(make([]string, height-len(lines)), lines...)
}

// logLines is the whole log of the conversation as rows, the outbox at its end.
func (m *model) logLines() []string {
	if m.conv == "" {
		return wrap(faint.Render("No conversation yet. Somebody has to add "+plain(string(m.self))+
			" to one, such as with impart admin conv put c-demo --member "+plain(string(m.self))), m.logWidth(), "")
	}
	var lines []string
	day := ""
	for _, part := range [][]impart.Event{m.older, m.sight.log} {
		for i := range part {
			ev := &part[i]
			rows := m.drawnLines(ev)
			if date := timeOf(ev.At)[:len("2006-01-02")]; date != day && len(rows) > 0 {
				day = date
				lines = append(lines, fit(faint.Render("— "+day+" —"), m.logWidth()))
			}
			lines = append(lines, rows...)
		}
	}
	for _, list := range [][]client.Item{m.sight.refused, m.sight.waiting} {
		for i := range list {
			if list[i].Conv == m.conv {
				lines = append(lines, m.itemLines(&list[i])...)
			}
		}
	}
	return lines
}

// drawn is an event as it was drawn last, and all that this depends on.
type drawn struct {
	mid      impart.MID
	recalled bool
	width    int
	state    string
	rows     []string
}

// drawnLines is eventLines, done again only when something has changed: breaking
// lines is slow, and every key draws the screen.
func (m *model) drawnLines(ev *impart.Event) []string {
	state := m.state(ev)
	d := m.drawn[ev.Seq]
	if d.rows == nil || d.mid != ev.MID || d.recalled != ev.Recalled || d.width != m.logWidth() || d.state != state {
		d = drawn{ev.MID, ev.Recalled, m.logWidth(), state, m.eventLines(ev, state)}
		m.drawn[ev.Seq] = d
	}
	return d.rows
}

// state is how far an own message has come; "" for all others.
func (m *model) state(ev *impart.Event) string {
	if ev.Sender != m.self || ev.Kind != impart.KindMsg || ev.Recalled {
		return ""
	}
	for i := range m.sight.waiting {
		if it := &m.sight.waiting[i]; it.Conv == ev.Conv && it.Target == ev.Seq {
			return "being recalled"
		}
	}
	return m.reached[ev.Seq].text()
}

// eventLines is one event as rows. A recall is shown at the message that it takes.
func (m *model) eventLines(ev *impart.Event, state string) []string {
	head := faint.Render(fmt.Sprintf("%4d %s", ev.Seq, timeOf(ev.At)[len("2006-01-02 "):len("2006-01-02 15:04")])) + " "
	sender := cut(plain(string(ev.Sender)), maxName)
	switch {
	case ev.Kind == impart.KindRecall:
		return nil
	case ev.Kind != impart.KindMsg:
		return wrap(head+faint.Render(told(ev)), m.logWidth(), indent)
	case ev.Recalled:
		return wrap(head+sender+faint.Render(" (recalled)"), m.logWidth(), indent)
	}
	body := text(ev.Body)
	if ev.Type != impart.DefaultType {
		body = "[" + plain(ev.Type) + "] " + body
	}
	if state == "" {
		return wrap(head+good.Render(sender)+" "+body, m.logWidth(), indent)
	}
	return withState(head+strong.Render(sender)+" "+body, faint, "· "+state, m.logWidth())
}

// itemLines is a message that is not stored, as rows.
func (m *model) itemLines(it *client.Item) []string {
	what := text(it.Body)
	if it.Kind == impart.KindRecall {
		if it.Err == nil {
			return nil // shown at its message
		}
		what = fmt.Sprintf("recall of %d", it.Target)
	}
	head := faint.Render(fmt.Sprintf("%4s %s", "", timeOf(it.At)[len("2006-01-02 "):len("2006-01-02 15:04")])) +
		" " + strong.Render(cut(plain(string(m.self)), maxName)) + " "
	if it.Err != nil {
		return withState(head+what, alert, fmt.Sprintf("· %s refused: %s", shortRef(it.CMID), whyRefused(m.self, it.Conv, it.Err)), m.logWidth())
	}
	return withState(head+what, waits, "· "+shortRef(it.CMID)+" in the outbox", m.logWidth())
}

// listRows is the list of conversations around the one that is open.
func (m *model) listRows(height int) []string {
	convs := m.sight.convs
	at := slices.IndexFunc(convs, func(c convLine) bool { return c.id == m.conv })
	first := max(0, min(at-height/2, len(convs)-height))
	rows := make([]string, height)
	for i := range rows {
		rows[i] = strings.Repeat(" ", listWidth)
		if first+i >= len(convs) {
			continue
		}
		c := convs[first+i]
		unread := ""
		if c.unread > 0 {
			unread = fmt.Sprintf(" %d", min(c.unread, maxUnread-1))
		}
		if c.unread >= maxUnread {
			unread += "+"
		}
		name := cut(plain(string(c.id)), listWidth-1-len(unread))
		row := name + strings.Repeat(" ", listWidth-1-len(unread)-lipgloss.Width(name)) + strong.Render(unread) + " "
		if c.id == m.conv {
			row = reverse.Render(name+strings.Repeat(" ", listWidth-1-len(unread)-lipgloss.Width(name))+unread) + " "
		}
		rows[i] = row
	}
	return rows
}

// statusRow says what the connection is doing first, for a narrow screen cuts the rest.
func (m *model) statusRow(w int) string {
	s := m.sight.status
	style := waits
	switch s.State {
	case client.Online:
		style = good
	case client.Stopped:
		style = alert
	}
	parts := []string{style.Render("● " + state(s))}
	if n := len(m.sight.waiting); n > 0 {
		parts = append(parts, waits.Render(fmt.Sprintf("outbox %d", n)))
	}
	if n := len(m.sight.refused); n > 0 {
		parts = append(parts, alert.Render(fmt.Sprintf("refused %d", n)))
	}
	if why := reason(s.Err); why != "" {
		parts = append(parts, style.Render(why))
	}
	if m.scroll > 0 {
		parts = append(parts, "further down: PgDn")
	}
	if names := m.typists(); names != "" {
		parts = append(parts, names+" is typing")
	}
	if m.conv != "" {
		parts = append(parts, cut(plain(string(m.conv)), 2*maxName))
	}
	if n := m.elsewhere(); n > 0 && m.width < listFrom {
		parts = append(parts, strong.Render(fmt.Sprintf("%d unread elsewhere", n)))
	}
	who := plain(string(m.self))
	if s.Device != "" {
		who += " on " + plain(string(s.Device))
	}
	parts = append(parts, faint.Render(who), faint.Render("/help"))
	return fit(strings.Join(parts, faint.Render(" │ ")), w)
}

// typists are those who type in the open conversation.
func (m *model) typists() string {
	var names []string
	for who := range m.typing {
		if who.conv == m.conv {
			names = append(names, cut(plain(string(who.user)), maxName))
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// elsewhere counts what is unread in the other conversations.
func (m *model) elsewhere() int {
	n := 0
	for _, c := range m.sight.convs {
		if c.id != m.conv {
			n += c.unread
		}
	}
	return n
}
