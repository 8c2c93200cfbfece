package chat

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
)

var update = flag.Bool("update", false, "write the pictures of testdata anew")

const noon = impart.Millis(1_790_000_000_000)

// hostile is everything that a message can try on a terminal.
const hostile = "\x1b[2J\x1b]0;own\x07\u202egnp.exe\u2066 \u009b31m\r\n   9 12:00 u-ben forged\n" + "a\u0301\u0301\u0301\u0301\u0301\u0301 \ttab\u200b"

func msg(seq impart.Seq, sender impart.UserID, body string) impart.Event {
	return impart.Event{Conv: ab, Seq: seq, Kind: impart.KindMsg, Type: impart.DefaultType, Sender: sender, Body: body, At: noon + impart.Millis(seq)*1000}
}

// painted is a screen with something of everything on it.
func painted(width, height int) *model {
	m := newModel(context.Background(), nil, "u-ana", ab)
	m.width, m.height = width, height
	m.now = time.UnixMilli(int64(noon))
	recalled := msg(4, "u-ben", "")
	recalled.Recalled = true
	card := msg(5, "u-ben", "{}")
	card.Type = "card\x1b[1m"
	m.sight = sight{
		status: client.Status{State: client.Online, User: "u-ana", Device: "chat-desk", Epoch: 1},
		convs:  []convLine{{id: ab}, {id: "c-会议室会议室会议室会议室", unread: 7}, {id: "c-\u202eevil", unread: maxUnread}},
		conv:   ab,
		log: []impart.Event{
			{Conv: ab, Seq: 1, Kind: impart.KindJoin, Sender: impart.System, User: "u-cem", By: "u-ben", At: noon},
			msg(2, "u-ana", "Shall we have lunch? 我们十二点半在楼下见面好吗，带上雨伞 🙂"),
			msg(3, "u-ben", hostile),
			recalled, card,
			msg(6, "u-\u202ean-impostor-with-a-long-name", "hi"),
			msg(7, "u-ana", "sent only"), msg(8, "u-ana", "delivered"), msg(9, "u-ana", "read by some"), msg(10, "u-ana", "read by all"),
			{Conv: ab, Seq: 11, Kind: impart.KindRecall, Sender: "u-ben", Target: 4, At: noon + 86_400_000},
			msg(12, "u-ana", "oops"),
		},
		waiting: []client.Item{
			{CMID: "0102030405a1b2", Conv: ab, Kind: impart.KindMsg, Body: "still here\x1b[A", At: noon + 90_000_000},
			{CMID: "0102030405a1b3", Conv: ab, Kind: impart.KindRecall, Target: 12, At: noon + 90_000_000},
			{CMID: "0102030405a1b4", Conv: "c-other", Kind: impart.KindMsg, Body: "elsewhere", At: noon + 90_000_000},
		},
		refused: []client.Item{{
			CMID: "0102030405c3d4", Conv: ab, Kind: impart.KindMsg, Body: "too much", At: noon + 89_000_000,
			Err: &impart.Error{Code: impart.TooLarge, Message: "the body is 70000 bytes, at most 65536 are\x1b[2J allowed"},
		}},
	}
	m.reached = map[impart.Seq]*reach{
		2:  {others: 2, devices: 3, delivered: 3, readers: []impart.UserID{"u-ben", "u-cem"}},
		7:  {others: 2},
		8:  {others: 2, devices: 3, delivered: 1},
		9:  {others: 9, devices: 9, delivered: 7, readers: []impart.UserID{"u-ben", "u-cem", "u-dan", "u-eve", "u-fay"}},
		10: {others: 1, devices: 1, delivered: 1, readers: []impart.UserID{"u-ben"}},
	}
	m.typing = map[typist]time.Time{{ab, "u-ben"}: m.now}
	m.input.SetValue("half a 句子")
	return m
}

func TestPictures(t *testing.T) {
	for name, m := range map[string]*model{
		"wide":   painted(100, 40),
		"narrow": painted(40, 24),
		"tiny":   painted(12, 5),
		"scrolled": func() *model {
			m := painted(70, 12)
			m.scrollBy(100)
			return m
		}(),
		"help": func() *model {
			m := painted(80, 30)
			m.tell(Orders(), false)
			return m
		}(),
		"stopped": func() *model {
			m := painted(100, 8)
			m.sight.status = client.Status{State: client.Stopped, Device: "chat-desk", Err: &client.Bye{Code: "SUPERSEDED", Final: true}}
			m.tell("refused: \x1b", true)
			return m
		}(),
		"waiting": func() *model {
			m := painted(100, 8)
			m.sight.status = client.Status{State: client.Waiting, Device: "chat-desk", RetryAt: m.now.Add(7 * time.Second), Err: fmt.Errorf("client: cannot connect: %w", os.ErrDeadlineExceeded)}
			return m
		}(),
		"nothing": func() *model {
			m := newModel(context.Background(), nil, "u-ana", "")
			m.sight.status.State = client.CatchingUp
			m.height = 6
			return m
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			var rows []string
			for row := range strings.Lines(colourless(m.View().Content) + "\n") {
				rows = append(rows, strings.TrimRight(row, " \n"))
			}
			got := strings.Join(rows, "\n") + "\n"
			file := filepath.Join("testdata", name+".txt")
			if *update {
				must(t, os.WriteFile(file, []byte(got), 0o644))
			}
			want, err := os.ReadFile(file)
			must(t, err)
			if got != string(want) {
				t.Errorf("the picture has changed (go test ./internal/chat -update draws it anew):\n%s\nwas\n%s", got, want)
			}
		})
	}
}

// Whatever the size, the screen is filled and not a cell more, and nothing hostile
// has got through.
func TestEverySizeFits(t *testing.T) {
	for width := 1; width <= 120; width += 1 + width/7 {
		for height := 1; height <= 50; height += 1 + height/3 {
			for _, say := range []string{"", Orders(), hostile} {
				m := painted(width, height)
				m.say = say
				for _, up := range []int{0, 1, 1000} {
					m.scrollBy(up)
					checkFit(t, m, width, height)
				}
			}
		}
	}
}

func TestRowsFit(t *testing.T) {
	for width := 1; width < 30; width++ {
		for _, s := range []string{text(hostile), "我们十二点半 a-b-c", strings.Repeat("x", 100), good.Render("u-ben") + " 你好 there"} {
			for _, row := range append(wrap(s, width, indent), withState(s, alert, "· 状态 waits", width)...) {
				if w := lipgloss.Width(row); w > width {
					t.Errorf("%q in %d cells has a row of %d: %q", s, width, w, row)
				}
			}
		}
	}
}

func checkFit(t *testing.T, m *model, width, height int) {
	t.Helper()
	v := m.View()
	rows := strings.Split(v.Content, "\n")
	if len(rows) != height {
		t.Fatalf("%d × %d has %d rows", width, height, len(rows))
	}
	for _, row := range rows {
		if w := lipgloss.Width(row); w > width {
			t.Fatalf("%d × %d has a row of %d cells: %q", width, height, w, row)
		}
		for _, r := range colourless(row) {
			if !unicode.IsPrint(r) {
				t.Fatalf("%d × %d shows %q in %q", width, height, r, row)
			}
		}
	}
	if v.Cursor != nil && (v.Cursor.X >= width || v.Cursor.Y >= height || v.Cursor.X < 0 || v.Cursor.Y < 0) {
		t.Fatalf("%d × %d has its cursor at %d, %d", width, height, v.Cursor.X, v.Cursor.Y)
	}
}

func TestAPasteBringsNothingUnseen(t *testing.T) {
	m := painted(80, 24)
	m.input.Reset()
	m.Update(tea.PasteMsg{Content: "a\u202eb\x1b[2Jc\nd\u200be"})
	for _, r := range m.input.Value() {
		if !unicode.IsPrint(r) {
			t.Errorf("the input line has %q", m.input.Value())
		}
	}
	if !strings.HasPrefix(m.input.Value(), "ab") {
		t.Errorf("the input line is %q", m.input.Value())
	}
}

// A screen full of long messages has to be drawn with every key.
func BenchmarkView(b *testing.B) {
	m := painted(120, 50)
	m.sight.log = nil
	for i := range firstRows {
		m.sight.log = append(m.sight.log, msg(impart.Seq(i+1), "u-ben", strings.Repeat("一二三 words and more ", 20)))
	}
	for b.Loop() {
		m.View()
	}
}
