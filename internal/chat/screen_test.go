package chat

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/impart-im/impart"
)

// screen runs a model as bubbletea would, without a terminal.
type screen struct {
	t      *testing.T
	ctx    context.Context
	cancel context.CancelFunc
	msgs   chan tea.Msg
	ran    sync.WaitGroup
	left   chan struct{} // closed when the user has left

	mu sync.Mutex // guards m
	m  *model
}

// screen opens the screen of a person; the test has to leave it.
func (p *person) screen(width, height int) *screen {
	p.w.t.Helper()
	c := p.start()
	ctx, cancel := context.WithCancel(p.w.t.Context())
	s := &screen{t: p.w.t, ctx: ctx, cancel: cancel, msgs: make(chan tea.Msg), left: make(chan struct{})}
	s.m = newModel(ctx, &observer{Chat: c, counted: map[impart.ConvID]convLine{}}, c.user, c.conv)
	p.w.screens = append(p.w.screens, s)
	s.start(s.m.Init())
	s.ran.Go(s.loop)
	s.give(tea.WindowSizeMsg{Width: width, Height: height})
	return s
}

func (s *screen) loop() {
	for {
		select {
		case msg := <-s.msgs:
			if _, quit := msg.(tea.QuitMsg); quit {
				close(s.left)
				return
			}
			s.mu.Lock()
			_, cmd := s.m.Update(msg)
			s.mu.Unlock()
			s.start(cmd)
		case <-s.ctx.Done():
			return
		}
	}
}

func (s *screen) start(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	s.ran.Go(func() {
		switch msg := cmd().(type) {
		case nil:
		case tea.BatchMsg:
			for _, each := range msg {
				s.start(each)
			}
		default:
			s.give(msg)
		}
	})
}

func (s *screen) give(msg tea.Msg) {
	select {
	case s.msgs <- msg:
	case <-s.ctx.Done():
	case <-s.left:
	}
}

// types gives each letter as a key, and then keys by name.
func (s *screen) types(text string, keys ...tea.KeyPressMsg) {
	for _, r := range text {
		s.give(tea.KeyPressMsg{Code: r, Text: string(r)})
	}
	for _, key := range keys {
		s.give(key)
	}
}

var (
	enter  = tea.KeyPressMsg{Code: tea.KeyEnter}
	tab    = tea.KeyPressMsg{Code: tea.KeyTab}
	pageUp = tea.KeyPressMsg{Code: tea.KeyPgUp}
	pageDn = tea.KeyPressMsg{Code: tea.KeyPgDown}
	ctrlC  = tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}
)

// view is what is on the screen, without colours.
func (s *screen) view() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return colourless(s.m.View().Content)
}

var colours = regexp.MustCompile(`\x1b\[[0-9;]*m`)

func colourless(s string) string { return colours.ReplaceAllString(s, "") }

func (s *screen) wants(text string) {
	s.t.Helper()
	wait(s.t, s.view, text)
}

func (s *screen) lacks(text string) {
	s.t.Helper()
	if view := s.view(); strings.Contains(view, text) {
		s.t.Fatalf("there is %q in\n%s", text, view)
	}
}

// leave presses Ctrl-C and closes the client, as the program does.
func (s *screen) leave(c *Chat) {
	s.t.Helper()
	s.give(ctrlC)
	<-s.left
	s.cancel()
	s.ran.Wait()
	must(s.t, c.Close())
}

// last is the chat that was opened last.
func (w *city) last() *Chat { return w.chats[len(w.chats)-1] }

func TestTwoScreensSeeSentDeliveredRead(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		ana := w.person("u-ana").screen(100, 12)
		anas := w.last()
		ana.wants("● online")
		ana.types("hi", enter)
		ana.wants("u-ana hi  · sent")
		benHimself := w.person("u-ben")
		ben := benHimself.screen(50, 10)
		bens := w.last()
		ben.give(tea.BlurMsg{})
		ana.wants("· delivered to 1 of 1 devices")
		ben.wants("u-ana hi")
		time.Sleep(time.Minute)
		ana.lacks("read by") // nobody looks at the other screen
		ben.give(tea.FocusMsg{})
		ana.wants("· read by u-ben")
		ben.types("I am ty")
		ana.wants("u-ben is typing")
		time.Sleep(10 * time.Second)
		ana.lacks("is typing")
		ben.types("ping", enter)
		ana.wants("u-ben I am typing")
		ben.wants("· read by u-ana")
		ana.types("/recall 1", enter)
		ben.wants("u-ana (recalled)")
		ana.wants("u-ana (recalled)")
		ana.leave(anas)
		ben.leave(bens)
	})
}

func TestWrittenOfflineLeftAndSentByTheNextStart(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		person := w.person("u-ana")
		ana := person.screen(100, 12)
		ana.wants("● online")
		person.link.Off()
		ana.wants("● waiting until ")
		ana.types("first", enter)
		ana.types("second", enter)
		ana.types("/cancel", enter)
		ana.wants("taken back before it was stored")
		ana.types("third", enter)
		ana.wants("outbox 2")
		ana.wants("● waiting until ")
		ana.wants("u-ana third  · #")
		ana.leave(w.last())
		person.link.On()
		again := person.screen(100, 12)
		again.wants("u-ana third  · sent")
		again.lacks("in the outbox")
		has(t, again.view(), "   1 ", "u-ana first", "   2 ", "u-ana third")
		again.leave(w.last())
	})
}

func TestARefusedMessageSaysWhatToDo(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		ana := w.person("u-ana").screen(100, 20)
		ana.types("/open c-none", enter)
		ana.wants("u-ana is in no conversation c-none: let somebody add them")
		ana.types("hello?", enter)
		ana.wants("refused: NOT_MEMBER: u-ana is in no conversation c-none: ")
		ana.wants("then /retry")
		ana.lacks("you are not a member")
		ana.wants("refused 1")
		must(t, w.Conversation("c-none", "u-ana"))
		ana.types("/retry", enter)
		ana.wants("u-ana hello?  · sent")
		ana.lacks("refused 1")
		ana.leave(w.last())
	})
}

// All of /help can be read: at a glance in a usual window, in pages in a small one.
func TestHelpCanBeReadInEveryWindow(t *testing.T) {
	m := painted(80, 18)
	m.tell(Orders(), false)
	shown := func() string { return colourless(m.View().Content) }
	for _, w := range words {
		has(t, shown(), "/"+w.word)
	}
	for height := 5; height < 24; height++ {
		for _, width := range []int{20, 40, 80} {
			m = painted(width, height)
			m.tell(Orders(), false)
			rows, _, _ := m.sayPages()
			seen := ""
			for turns := 0; ; turns++ {
				seen += shown()
				if !m.turnSay(true) {
					break
				}
				if turns > len(rows) {
					t.Fatalf("%d × %d: the pages do not end", width, height)
				}
			}
			for _, row := range rows {
				if !strings.Contains(seen, colourless(row)) {
					t.Errorf("%d × %d: no page has %q", width, height, colourless(row))
				}
			}
			for m.turnSay(false) {
			}
			has(t, shown(), "/recall")
			if m.scroll != 0 {
				t.Errorf("%d × %d: the log has moved", width, height)
			}
		}
	}
}

// The keys turn the pages first, and are the log's again after the last.
func TestPagesBeforeTheLog(t *testing.T) {
	m := painted(80, 9)
	m.tell(Orders(), false)
	has(t, colourless(m.View().Content), "/recall", "PgDn: more")
	m.Update(pageUp)
	if m.scroll == 0 {
		t.Error("there is no page above the first: the log should move")
	}
	m.scroll = 0
	for range 20 {
		m.Update(pageDn)
	}
	has(t, colourless(m.View().Content), "/quit", "PgUp: back")
	m.Update(pageUp)
	if view := colourless(m.View().Content); strings.Contains(view, "/quit") || m.scroll != 0 {
		t.Errorf("the log has moved instead of the page:\n%s", view)
	}
}

func TestTakenOverAndTakenBack(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		ana, copied := w.person("u-ana"), w.person("u-ana")
		here := ana.screen(100, 12)
		heres := w.last()
		here.wants("● online")
		there := copied.screen(100, 12)
		here.wants("● stopped │ this device is connected from elsewhere; /reconnect takes it back")
		here.types("/reconnect", enter)
		here.wants("● online")
		there.wants("● stopped")
		there.leave(w.last())
		here.leave(heres)
	})
}

func TestUnreadElsewhereAndDraftsThatWait(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		must(t, w.Conversation("c-zwei", "u-ana", "u-ben"))
		ana := w.person("u-ana").screen(80, 12)
		anas := w.last()
		ana.wants("● online")
		ana.types("half a sen")
		ben := w.person("u-ben")
		ben.cfg.Conv = "c-zwei"
		_, err := ben.pipe("one\ntwo\n", time.Minute)
		must(t, err)
		ana.wants("c-zwei            2")
		ana.types("", tab)
		ana.wants("u-ben two")
		wait(t, func() string {
			if !strings.Contains(ana.view(), "c-zwei            2") {
				return "read"
			}
			return "unread"
		}, "read")
		ana.lacks("half a sen")
		ana.types("", tab)
		ana.wants("> half a sen")
		ana.leave(anas)
	})
}

func TestScrollingBeyondTheStore(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		person := w.person("u-ana")
		_, err := person.pipe("m1\nm2\nm3\nm4\nm5\nm6\nm7\nm8\nm9\nm10\nm11\nm12\n", time.Minute)
		must(t, err)
		two := int64(2)
		fresh := w.person("u-ana")
		fresh.cfg.Client.Device, fresh.cfg.Client.History = "d-fresh", &two
		ana := fresh.screen(80, 8)
		ana.wants("u-ana m12")
		ana.lacks("m10")
		ana.types("", pageUp)
		ana.wants("u-ana m10")
		for range 6 {
			ana.types("", pageUp)
		}
		ana.wants("   1 ")
		_, err = person.pipe("m13\nm14\nm15\nm16\n", time.Minute)
		must(t, err)
		time.Sleep(time.Second)
		ana.wants("   1 ") // what one reads stays where it is
		ana.lacks("m13")
		for range 8 {
			ana.types("", pageDn)
		}
		ana.wants("u-ana m16")
		ana.leave(w.last())
	})
}

func TestALargeConversationIsAskedAbout(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		users := []impart.UserID{"u-ana", "u-ben"}
		for i := range impart.MaxReceipts + 70 {
			users = append(users, impart.UserID("u-"+string(rune('A'+i%26))+string(rune('a'+i/26))))
		}
		must(t, w.Conversation("c-big", users...))
		person := w.person("u-ana")
		person.cfg.Conv = "c-big"
		ana := person.screen(100, 12)
		anas := w.last()
		ana.types("hi all", enter)
		ana.wants("u-ana hi all  · sent")
		ben := w.person("u-ben")
		ben.cfg.Conv = "c-big"
		_, err := ben.pipe("/read\n", time.Minute)
		must(t, err)
		ana.wants("· read by u-ben") // without a receipt
		ana.leave(anas)
	})
}

// A store that is closed under the screen is told of, and nothing hangs.
func TestTheStoreFails(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		ana := w.person("u-ana").screen(100, 12)
		ana.wants("● online")
		must(t, w.last().Close())
		ana.types("hi", enter)
		ana.wants("the local store cannot be read: client: closed")
		ana.leave(w.last())
	})
}

func TestWhatCannotBeTakenStaysInTheInput(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		ana := w.person("u-ana")
		ana.cfg.Client.MaxOutbox = 1
		ana.link.Off()
		s := ana.screen(80, 12)
		s.types("one", enter)
		s.wants("outbox 1")
		s.types("two", enter)
		s.wants("too many messages wait in the outbox")
		s.wants("> two")
		s.leave(w.last())
	})
}

// Enter and Ctrl-C in one breath: what was typed is in the outbox all the same.
func TestLastWords(t *testing.T) {
	story(t, func(t *testing.T, w *city) {
		ana := w.person("u-ana")
		ana.link.Off()
		s := ana.screen(80, 12)
		s.types("last", enter)
		s.types("words", enter, ctrlC)
		<-s.left
		list, err := w.last().Outbox(t.Context())
		must(t, err)
		if len(list) != 2 || list[0].Body != "last" || list[1].Body != "words" {
			t.Errorf("the outbox is %+v", list)
		}
	})
}
