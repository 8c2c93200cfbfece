package chat

import (
	"slices"
	"strings"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"

	"github.com/impart-im/impart"
)

// Update takes one message.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.clampScroll()
	case tea.FocusMsg:
		m.focused = true
		return m, m.read()
	case tea.BlurMsg:
		m.focused = false
	case tea.KeyPressMsg:
		return m, m.key(msg)
	case tea.PasteMsg:
		msg.Content = strings.Map(pasted, msg.Content)
		return m, m.edit(msg)
	case wokenMsg:
		return m, m.woken(msg)
	case lookedMsg:
		return m, m.looked(msg)
	case actedMsg:
		return m, m.acted(msg)
	case askedMsg:
		m.asking = false
		if msg.conv == m.conv {
			for seq, r := range msg.reached {
				r.stale = m.reached[seq] != nil && m.reached[seq].stale
				m.reached[seq] = r
			}
		}
	case olderMsg:
		m.gotOlder(msg)
	case checkedMsg:
		if msg.conv == m.conv && msg.err != nil {
			m.tell(msg.err.Error(), true)
		}
	case tickMsg:
		return m, m.ticked(time.Time(msg))
	default:
		return m, m.edit(msg)
	}
	return m, nil
}

// pasted leaves out of a pasted text what would not be seen in the input line.
func pasted(r rune) rune {
	if unicode.Is(unicode.Cf, r) && r != '\u200c' && r != '\u200d' {
		return -1
	}
	return r
}

func (m *model) key(key tea.KeyPressMsg) tea.Cmd {
	switch key.String() {
	case "ctrl+c":
		return m.leave()
	case "enter":
		return m.submit()
	case "tab", "ctrl+n":
		return m.turn(1)
	case "shift+tab", "ctrl+p":
		return m.turn(-1)
	case "pgup", "pgdown":
		if m.turnSay(key.String() == "pgdown") {
			return nil
		}
	}
	switch key.String() {
	case "pgup":
		return m.scrollBy(max(1, m.logHeight()/2))
	case "pgdown":
		return m.scrollBy(-max(1, m.logHeight()/2))
	case "esc":
		m.tell("", false)
		return nil
	}
	return m.edit(key)
}

// edit lets the input line have a message, and tells others that we type.
func (m *model) edit(msg tea.Msg) tea.Cmd {
	before := m.input.Value()
	var cmd tea.Cmd
	m.input, cmd = m.input.Update(msg)
	after := m.input.Value()
	if after == before || after == "" || strings.HasPrefix(after, "/") || m.now.Sub(m.typed) < typingGap {
		return cmd
	}
	m.typed = m.now
	conv := m.conv
	return tea.Batch(cmd, func() tea.Msg { m.desk.Typing(conv); return nil })
}

// submit takes the line that was typed.
func (m *model) submit() tea.Cmd {
	line := m.input.Value()
	if strings.TrimSpace(line) == "" {
		return nil
	}
	o, err := parse(line)
	switch {
	case err != nil:
		m.tell(err.Error(), true)
		return nil
	case o.word == "quit":
		return m.leave()
	case o.word == "open":
		m.input.Reset()
		return m.open(o.conv)
	case m.conv == "" && o.word != "help" && o.word != "reconnect":
		m.tell("there is no conversation to do this in; /open CONV goes to one", true)
		return nil
	}
	m.input.Reset()
	m.tell("", false)
	m.scroll = 0
	m.orders = append(m.orders, entry{m.conv, line, o})
	return m.carryOut()
}

// carryOut does the next order, once the one before is done: messages are sent in
// the order in which they were typed.
func (m *model) carryOut() tea.Cmd {
	switch {
	case m.acting:
		return nil
	case len(m.orders) == 0 && m.leaving:
		return tea.Quit
	case len(m.orders) == 0:
		return nil
	}
	next := m.orders[0]
	m.orders, m.acting = m.orders[1:], true
	return m.act(next)
}

// leave ends the program once what was typed is in the outbox; asked twice, at once.
func (m *model) leave() tea.Cmd {
	if m.leaving {
		return tea.Quit
	}
	m.leaving = true
	return m.carryOut()
}

func (m *model) acted(msg actedMsg) tea.Cmd {
	if msg.err != nil {
		m.tell(msg.err.Error(), true)
		if m.input.Value() == "" && msg.conv == m.conv {
			m.input.SetValue(msg.line) // nothing that was typed is lost
			m.input.CursorEnd()
		}
	} else if msg.done.say != "" {
		m.tell(msg.done.say, false)
	}
	if msg.line == "" {
		return m.look() // it was read by itself
	}
	m.acting = false
	return tea.Batch(m.look(), m.carryOut())
}

// tell shows an answer until the next.
func (m *model) tell(text string, bad bool) {
	m.turned = 0
	m.say, m.bad = strings.TrimRight(text, "\n"), bad
	m.clampScroll()
}

// woken takes what the client was told.
func (m *model) woken(list wokenMsg) tea.Cmd {
	for _, n := range list {
		switch {
		case n.receipt != nil && n.receipt.Conv == m.conv, n.rewound != nil && n.rewound.conv == m.conv:
			m.outdate()
		case n.typing != nil:
			m.typing[*n.typing] = m.now.Add(typingTime)
		case n.settled != nil && n.settled.Err != nil:
			m.tell("refused: "+whyRefused(m.self, n.settled.Conv, n.settled.Err), true)
		}
		if n.rewound != nil && n.rewound.conv == m.conv {
			m.reached, m.older = map[impart.Seq]*reach{}, nil
			m.tell("the server's history has changed; what it lacked is sent again", true)
		}
	}
	if m.ctx.Err() != nil {
		return tea.Quit
	}
	return tea.Batch(m.watch(), m.look())
}

// outdate lets what is known of own messages be asked again.
func (m *model) outdate() {
	for _, r := range m.reached {
		r.stale = true
	}
}

func (m *model) looked(msg lookedMsg) tea.Cmd {
	m.looking = false
	var again tea.Cmd
	if m.again || msg.err == nil && m.conv != "" && msg.sight.conv != m.conv {
		again = m.look()
	}
	if msg.err != nil {
		m.tell("the local store cannot be read: "+plain(msg.err.Error()), true)
		return again
	}
	if m.conv == "" {
		m.conv = msg.sight.conv
	}
	if msg.sight.conv == m.conv {
		// What is on the screen stays where it is while the user reads further up.
		grown := 0
		if m.scroll > 0 {
			grown = -len(m.logLines())
		}
		before := m.newest()
		m.sight = msg.sight
		for _, ev := range m.sight.log {
			if ev.Seq > before { // that is what they were typing
				delete(m.typing, typist{ev.Conv, ev.Sender})
			}
		}
		if m.scroll > 0 {
			m.scroll += max(0, grown+len(m.logLines()))
		}
		m.clampScroll()
	}
	return tea.Batch(again, m.read(), m.ask(), m.check())
}

// newest is the seq of the last event on the screen.
func (m *model) newest() impart.Seq {
	if n := len(m.sight.log); n > 0 {
		return m.sight.log[n-1].Seq
	}
	return 0
}

// read marks the conversation as read when the user can see its end.
func (m *model) read() tea.Cmd {
	line := m.sight.line(m.conv)
	if !m.focused || m.scroll > 0 || line == nil || line.stored <= line.read || m.reading >= line.stored {
		return nil
	}
	m.reading = line.stored
	return m.act(entry{conv: m.conv, order: order{word: "read", seq: line.stored}})
}

func (m *model) ticked(at time.Time) tea.Cmd {
	m.now = at
	for who, until := range m.typing {
		if !until.After(at) {
			delete(m.typing, who)
		}
	}
	if at.Sub(m.polled) >= pollTime {
		m.polled = at
		for _, r := range m.reached {
			r.stale = r.stale || r.others >= impart.MaxReceipts
		}
	}
	return tea.Batch(tick(), m.ask())
}

// turn goes to the next conversation, or the one before.
func (m *model) turn(by int) tea.Cmd {
	n := len(m.sight.convs)
	if n == 0 {
		return nil
	}
	at := slices.IndexFunc(m.sight.convs, func(c convLine) bool { return c.id == m.conv })
	if at < 0 && by < 0 {
		at = 0
	}
	return m.open(m.sight.convs[(at+by+n)%n].id)
}

// open goes to a conversation. What was being typed waits there for the return.
func (m *model) open(conv impart.ConvID) tea.Cmd {
	if err := impart.CheckID("CONV", string(conv), impart.MaxID); err != nil {
		m.tell(err.Error(), true)
		return nil
	}
	m.drafts[m.conv] = m.input.Value()
	m.conv, m.rows, m.scroll, m.older, m.reading, m.checked = conv, firstRows, 0, nil, 0, false
	m.reached, m.drawn = map[impart.Seq]*reach{}, map[impart.Seq]drawn{}
	m.sight.conv, m.sight.log = conv, nil
	m.input.SetValue(m.drafts[conv])
	m.input.CursorEnd()
	m.tell("", false)
	return m.look()
}

// scrollBy moves the log, and gets more of it at its beginning.
func (m *model) scrollBy(rows int) tea.Cmd {
	most := m.mostScroll()
	m.scroll = max(0, min(m.scroll+rows, most))
	switch {
	case rows < 0:
		return m.read()
	case m.scroll < most:
		return nil
	case len(m.sight.log) > 0 && m.sight.log[0].Seq > m.sight.first+1 && len(m.sight.log) >= m.rows:
		m.rows += moreRows
		return m.look()
	}
	return m.fetch()
}

// mostScroll shows the beginning of the log.
func (m *model) mostScroll() int { return max(0, len(m.logLines())-m.logHeight()) }

// clampScroll keeps the log on the screen.
func (m *model) clampScroll() {
	if m.scroll > 0 {
		m.scroll = min(m.scroll, m.mostScroll())
	}
}

func (m *model) gotOlder(msg olderMsg) {
	m.fetching = false
	switch {
	case msg.conv != m.conv:
	case msg.err != nil:
		m.tell(msg.err.Error(), true)
	case len(msg.events) == 0:
		m.tell("this is the beginning", false)
	default:
		m.older = append(msg.events, m.older...)
	}
}
