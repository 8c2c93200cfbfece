package chat

import (
	"strings"

	"charm.land/lipgloss/v2"
)

// leastLog is how many rows an answer leaves to the log, where it does not get half.
const leastLog = 3

// sayRows is the part of the last answer that is on the screen.
func (m *model) sayRows() []string {
	rows, page, style := m.sayPages()
	if len(rows) <= page {
		return rows
	}
	rows = rows[min(m.turned, lastPage(rows, page)):]
	if page < 2 {
		return rows[:page]
	}
	more := "… PgDn: more"
	if len(rows) <= page-1 {
		more = "… PgUp: back"
	}
	return append(rows[:page-1:page-1], fit(style.Render(more), max(m.width, 1)))
}

// sayPages is the whole answer as rows, and how many of them the screen takes: if
// they are too many, one is for the note that there are more.
func (m *model) sayPages() (rows []string, page int, style lipgloss.Style) {
	style = faint
	if m.bad {
		style = alert
	}
	for line := range strings.Lines(m.say) {
		rows = append(rows, wrap(style.Render(plain(strings.TrimRight(line, "\n"))), max(m.width, 1), indent)...)
	}
	const others = 2 // the input line and the status line
	return rows, max(0, (m.height-others)/2, m.height-others-leastLog), style
}

// lastPage is how many rows are above the last page of an answer.
func lastPage(rows []string, page int) int { return max(0, len(rows)-max(1, page-1)) }

// turnSay turns a page of an answer that does not fit; false: there is none in this
// direction, and the key is for the log.
func (m *model) turnSay(down bool) bool {
	rows, page, _ := m.sayPages()
	last := lastPage(rows, page)
	at := min(m.turned, last)
	if len(rows) <= page || page == 0 || down && at == last || !down && at == 0 {
		return false
	}
	step := max(1, page-1)
	if !down {
		step = -step
	}
	m.turned = max(0, min(at+step, last))
	return true
}
