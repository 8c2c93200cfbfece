package main

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/impart-im/impart/internal/chat"
)

// TestChatPage holds docs/chat.md against the flags and orders that there are.
func TestChatPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "chat.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	_, settings, found := strings.Cut(page, "## Settings")
	if !found {
		t.Fatal("docs/chat.md has lost its settings")
	}
	known := map[string]bool{}
	for _, flag := range regexp.MustCompile(`(?m)^ +(--[a-z-]+)`).FindAllStringSubmatch(chatCommand(process()).Flags().FlagUsages(), -1) {
		known[flag[1]] = true
		if !strings.Contains(settings, "`"+flag[1]+"`") {
			t.Errorf("docs/chat.md does not say what %s is", flag[1])
		}
	}
	if len(known) < 10 {
		t.Errorf("only %d flags were found", len(known))
	}
	for _, flag := range regexp.MustCompile("`(--[a-z-]+)").FindAllStringSubmatch(page, -1) {
		if !known[flag[1]] {
			t.Errorf("docs/chat.md: there is no flag %s", flag[1])
		}
	}
	for line := range strings.Lines(chat.Orders()) {
		order, help, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if row := "| `" + order + "` | " + strings.TrimSpace(help) + " |\n"; !strings.Contains(page, row) {
			t.Errorf("docs/chat.md lacks the row %s", row)
		}
	}
}

// The examples can be followed from the first on: a chat needs its conversation.
func TestChatExamplesBeginWithTheConversation(t *testing.T) {
	example := chatCommand(process()).Example
	made, chat := strings.Index(example, "\nimpart admin conv put c-demo --member u-ana"), strings.Index(example, "\nimpart chat ")
	if made < 0 || chat < made {
		t.Errorf("the conversation is made at %d, and the first chat is at %d of\n%s", made, chat, example)
	}
}

func TestChatStore(t *testing.T) {
	env := streams{env: func(name string) (string, bool) { return map[string]string{"XDG_STATE_HOME": "/state"}[name], true }}
	seen := map[string]string{}
	for _, c := range []struct{ url, user, device, want string }{
		{"http://127.0.0.1:8080", "u-ana", "chat-desk", "/state/impart/chat/127.0.0.1%3a8080/u-ana/chat-desk.db"},
		{"http://127.0.0.1:8080/", "u-ana", "chat-tab", "/state/impart/chat/127.0.0.1%3a8080/u-ana/chat-tab.db"},
		{"http://127.0.0.1:8081", "u-ana", "chat-desk", ""},
		{"http://127.0.0.1:8080/im", "u-ana", "chat-desk", ""},
		{"http://127.0.0.1:8080", "U-ana", "chat-desk", ""},
		{"http://127.0.0.1:8080", "../u-ana", "chat-desk", ""},
		{"http://127.0.0.1:8080", "..", "chat-desk", ""},
		{"http://127.0.0.1:8080", "u/ana", "chat-desk", ""},
		{"http://127.0.0.1:8080", "u%2fana", "chat-desk", ""},
		{"http://127.0.0.1:8080", strings.Repeat("的", 42), "chat-desk", ""},
		{"http://127.0.0.1:8080", strings.Repeat("的", 41) + "地", "chat-desk", ""},
	} {
		address, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		got, err := chatStore(env, address, c.user, c.device)
		if err != nil {
			t.Fatal(err)
		}
		if c.want != "" && got != filepath.FromSlash(c.want) {
			t.Errorf("%+v has its store at %s", c, got)
		}
		if rel, err := filepath.Rel("/state/impart/chat", got); err != nil || strings.Count(filepath.ToSlash(rel), "/") != 2 || strings.HasPrefix(rel, ".") {
			t.Errorf("%+v has its store outside of its place: %s", c, got)
		}
		for _, name := range strings.Split(got, string(filepath.Separator)) {
			if len(name) > 255 {
				t.Errorf("%+v has its store in a name of %d bytes", c, len(name))
			}
		}
		if other, known := seen[strings.ToLower(got)]; known {
			t.Errorf("%+v shares its store with %s", c, other)
		}
		seen[strings.ToLower(got)] = c.url + " " + c.user
	}
}
