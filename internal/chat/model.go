package chat

import (
	"context"
	"time"

	"charm.land/bubbles/v2/textinput"
	tea "charm.land/bubbletea/v2"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
)

// desk is what the screen asks of the client. The screen calls it from commands,
// which may wait for the disk, and in report, older and exists for the network.
type desk interface {
	look(ctx context.Context, conv impart.ConvID, rows int) (sight, error)
	act(ctx context.Context, conv impart.ConvID, o order) (outcome, error)
	report(ctx context.Context, conv impart.ConvID, seq impart.Seq) ([]impart.UserReport, error)
	older(ctx context.Context, conv impart.ConvID, before impart.Seq) ([]impart.Event, error)
	exists(ctx context.Context, conv impart.ConvID) error
	next(ctx context.Context) []notice // waits until there is something new
	Typing(conv impart.ConvID)
}

// Bounds of the screen.
const (
	firstRows  = 200              // events of a conversation that are read at first
	moreRows   = 200              // and each time that the user scrolls past them
	maxAsked   = 20               // own messages whose reach is asked for in a turn
	typingTime = 6 * time.Second  // a note of typing is shown
	typingGap  = 3 * time.Second  // between our own
	pollTime   = 5 * time.Second  // where no receipts come
	askTime    = 10 * time.Second // for an answer of the server
)

// model is the state of the screen. Update changes it, View shows it; neither waits.
type model struct {
	ctx  context.Context
	desk desk
	self impart.UserID

	conv    impart.ConvID
	sight   sight
	older   []impart.Event // from the server, before what the store has
	rows    int
	reached map[impart.Seq]*reach // of own messages in conv
	typing  map[typist]time.Time  // until when
	drafts  map[impart.ConvID]string
	drawn   map[impart.Seq]drawn // of conv

	input    textinput.Model
	width    int
	height   int
	scroll   int // rows between the end of the log and the bottom of the screen
	focused  bool
	say      string // the answer to the last order
	bad      bool   // it is an error
	turned   int    // rows of it that were read and are above the screen
	now      time.Time
	typed    time.Time // when we last told that we type
	polled   time.Time
	looking  bool
	again    bool // something came while looking
	asking   bool
	fetching bool // older events
	acting   bool // an order is being carried out
	leaving  bool // once all are
	orders   []entry
	checked  bool // that the conversation exists
	reading  impart.Seq
}

func newModel(ctx context.Context, d desk, self impart.UserID, conv impart.ConvID) *model {
	input := textinput.New()
	input.Prompt = "> "
	input.SetVirtualCursor(false)
	input.KeyMap.Paste.SetEnabled(false) // it would run a program to read the clipboard
	input.Focus()
	return &model{
		ctx: ctx, desk: d, self: self, conv: conv, rows: firstRows, input: input, focused: true,
		reached: map[impart.Seq]*reach{}, typing: map[typist]time.Time{}, drafts: map[impart.ConvID]string{},
		drawn: map[impart.Seq]drawn{}, width: 80, height: 24,
	}
}

// entry is an order and where it was given.
type entry struct {
	conv  impart.ConvID
	line  string // "": the screen itself has given it
	order order
}

// What the commands bring back.
type (
	wokenMsg  []notice
	lookedMsg struct {
		sight sight
		err   error
	}
	actedMsg struct {
		entry
		done outcome
		err  error
	}
	askedMsg struct {
		conv    impart.ConvID
		reached map[impart.Seq]*reach
	}
	olderMsg struct {
		conv   impart.ConvID
		events []impart.Event
		err    error
	}
	checkedMsg struct {
		conv impart.ConvID
		err  error
	}
	tickMsg time.Time
)

// Init starts the commands that go on until the end.
func (m *model) Init() tea.Cmd { return tea.Batch(m.watch(), m.look(), tick()) }

func tick() tea.Cmd {
	return tea.Tick(time.Second, func(at time.Time) tea.Msg { return tickMsg(at) })
}

func (m *model) watch() tea.Cmd {
	return func() tea.Msg { return wokenMsg(m.desk.next(m.ctx)) }
}

// look reads a sight, or notes that one more is needed after the present one.
func (m *model) look() tea.Cmd {
	if m.looking {
		m.again = true
		return nil
	}
	m.looking, m.again = true, false
	conv, rows := m.conv, m.rows
	return func() tea.Msg {
		s, err := m.desk.look(m.ctx, conv, rows)
		return lookedMsg{s, err}
	}
}

// act carries out an order.
func (m *model) act(t entry) tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, askTime)
		defer cancel()
		done, err := m.desk.act(ctx, t.conv, t.order)
		return actedMsg{t, done, err}
	}
}

// ask asks the server how far own messages have come, the newest ones.
func (m *model) ask() tea.Cmd {
	if m.asking || m.sight.status.State != client.Online || m.sight.conv != m.conv {
		return nil
	}
	var seqs []impart.Seq
	for i := len(m.sight.log) - 1; i >= 0 && len(seqs) < maxAsked; i-- {
		ev := &m.sight.log[i]
		if ev.Kind != impart.KindMsg || ev.Sender != m.self || ev.Recalled {
			continue
		}
		if r := m.reached[ev.Seq]; r == nil || r.stale && !r.whole() {
			seqs = append(seqs, ev.Seq)
		}
	}
	if len(seqs) == 0 {
		return nil
	}
	m.asking = true
	conv, self := m.conv, m.self
	for _, seq := range seqs {
		if r := m.reached[seq]; r != nil {
			r.stale = false // what changes from now on makes it stale again
		}
	}
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, askTime)
		defer cancel()
		reached := map[impart.Seq]*reach{}
		for _, seq := range seqs {
			users, err := m.desk.report(ctx, conv, seq)
			if err != nil {
				break // asked again with the next tick
			}
			reached[seq] = reachOf(users, self)
		}
		return askedMsg{conv, reached}
	}
}

// fetch reads what is older than the store from the server.
func (m *model) fetch() tea.Cmd {
	first := m.sight.first + 1
	if len(m.older) > 0 {
		first = m.older[0].Seq
	}
	if m.fetching || first <= m.sight.floor+1 || m.sight.status.State != client.Online {
		return nil
	}
	m.fetching = true
	conv := m.conv
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, askTime)
		defer cancel()
		events, err := m.desk.older(ctx, conv, first)
		return olderMsg{conv, events, err}
	}
}

// check asks the server about a conversation that the store does not have.
func (m *model) check() tea.Cmd {
	if m.checked || m.conv == "" || m.sight.line(m.conv) != nil || m.sight.status.State != client.Online {
		return nil
	}
	m.checked = true
	conv := m.conv
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, askTime)
		defer cancel()
		return checkedMsg{conv, m.desk.exists(ctx, conv)}
	}
}
