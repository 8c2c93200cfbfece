package chat

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
)

// indent is what the further rows of a message begin with, so that none of them
// can look like another message.
const indent = "       "

// maxBody is how many lines of one message are shown.
const maxBody = 30

// text is the body of a message with its own line breaks, harmless.
func text(body string) string {
	lines := strings.Split(strings.TrimRight(body, "\n"), "\n")
	more := len(lines) - maxBody
	if more > 0 {
		lines = lines[:maxBody]
	}
	for i := range lines {
		lines[i] = plain(strings.ReplaceAll(strings.TrimRight(lines[i], "\r"), "\t", "    "))
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("(and %d more lines)", more))
	}
	return strings.Join(lines, "\n")
}

// wrap breaks styled text into rows of at most width cells; those after the first
// begin with prefix.
func wrap(s string, width int, prefix string) []string {
	if width <= 2*len(prefix) {
		prefix = ""
	}
	first, rest, several := strings.Cut(s, "\n")
	rows := wrapOne(first, width, prefix)
	for several {
		first, rest, several = strings.Cut(rest, "\n")
		for _, row := range strings.Split(lipgloss.Wrap(first, width-len(prefix), ""), "\n") {
			rows = append(rows, prefix+fit(row, width-len(prefix)))
		}
	}
	return rows
}

func wrapOne(s string, width int, prefix string) []string {
	var rows []string
	for i, row := range strings.Split(lipgloss.Wrap(s, width-len(prefix), ""), "\n") {
		if i > 0 {
			row = prefix + row
		}
		rows = append(rows, fit(row, width))
	}
	return rows
}

// withState is a message as rows with its state behind it, or below if there is no room.
func withState(message string, style lipgloss.Style, state string, width int) []string {
	rows := wrap(message, width, indent)
	last := rows[len(rows)-1]
	if lipgloss.Width(last)+2+lipgloss.Width(state) <= width {
		rows[len(rows)-1] = last + "  " + style.Render(state)
		return rows
	}
	for _, row := range wrap(state, max(1, width-len(indent)), "") {
		rows = append(rows, fit(indent+style.Render(row), width))
	}
	return rows
}

// fit cuts styled text to width cells.
func fit(s string, width int) string {
	if lipgloss.Width(s) <= width {
		return s
	}
	return lipgloss.NewStyle().Inline(true).MaxWidth(width).Render(s)
}

// cut shortens plain text to width cells, and shows that it did.
func cut(s string, width int) string {
	if lipgloss.Width(s) <= width {
		return s
	}
	if width < 2 {
		return fit(s, max(width, 0))
	}
	return fit(s, width-1) + "…"
}
