package redis

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/dedup"
)

// answers is the cache of one node.
func (w *world) answers() *Answers {
	w.Helper()
	a := NewAnswers(w.client())
	w.Cleanup(func() {
		if err := a.Close(); err != nil {
			w.Error(err)
		}
	})
	return a
}

func kept(user impart.UserID, cmid impart.CMID, seq impart.Seq) dedup.Entry {
	return dedup.Entry{Key: dedup.KeyOf(user, cmid), User: user, CMID: cmid, Answer: dedup.Answer{
		Hash: [16]byte{1, byte(seq)}, Seq: seq, MID: impart.MID(fmt.Sprint("mid-", seq)), At: 1000 + impart.Millis(seq), Epoch: 3, Incarnation: "system/1",
	}}
}

func find(a *Answers, entries ...dedup.Entry) []dedup.Answer {
	for i := range entries {
		entries[i].Answer = dedup.Answer{}
	}
	a.Find(context.Background(), entries)
	found := make([]dedup.Answer, len(entries))
	for i := range entries {
		found[i] = entries[i].Answer
	}
	return found
}

func TestAnswersAreSharedByNodes(t *testing.T) {
	for shape, url := range shapes() {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, url(t))
			here, there := w.answers(), w.answers()
			user := impart.UserID(fresh("u"))
			var entries []dedup.Entry
			for i := range 100 {
				entries = append(entries, kept(user, impart.CMID(fmt.Sprint("m-", i)), impart.Seq(i+1)))
			}
			until(t, "finding what another node has kept", func() bool {
				here.Keep(t.Context(), entries) // again: it may be lost where a server takes its time
				found := 0
				for i, got := range find(there, slices.Clone(entries)...) {
					switch want := kept(user, impart.CMID(fmt.Sprint("m-", i)), impart.Seq(i+1)).Answer; got {
					case want:
						found++
					case dedup.Answer{}:
					default:
						t.Fatalf("found %+v, kept %+v", got, want)
					}
				}
				return found == len(entries)
			})
			if got := find(there, kept(user, "m-never", 1)); got[0] != (dedup.Answer{}) {
				t.Errorf("found %+v", got)
			}
			newer := kept(user, "m-1", 2)
			newer.Epoch = 4
			here.Keep(t.Context(), []dedup.Entry{newer})
			until(t, "finding the newer one", func() bool { return find(there, newer)[0].Epoch == 4 })
		})
	}
}

func TestKeysOfAnswersDoNotCollide(t *testing.T) { // D12
	long := strings.Repeat("u", impart.MaxID)
	pairs := [][2]string{
		{"a:b", "c"}, {"a", "b:c"}, {"a", ":bc"}, {"", "a:bc"}, {"a:bc", ""}, {"a", "bc"}, {"ab", "c"}, {"a%3Ab", "c"}, {"a", "b%3Ac"}, {"a%3A", "b"}, {"a%", "3Ab"},
		{"A", "bc"}, {"a", "bc "}, {"a ", "bc"}, {"a", "BC"}, {"{a}", "bc"}, {"a", "{bc}"}, {"{a", "bc}"}, {"%7Ba%7D", "bc"}, {long, "c"}, {long[1:], "uc"},
	}
	seen := map[string][2]string{}
	for _, pair := range pairs {
		key := answerKey(impart.UserID(pair[0]), impart.CMID(pair[1]))
		if other, taken := seen[key]; taken {
			t.Errorf("%q and %q share the key %q", other, pair, key)
		}
		seen[key] = pair
		if strings.ContainsAny(key, "{}") {
			t.Errorf("%q would choose a slot", key)
		}
	}
	if got := answerKey("1001", "c-1a2b3c"); got != "dedup:1001:c-1a2b3c" {
		t.Errorf("seed 002's key is %q", got)
	}
}

func TestAnOperatorReadsAnAnswer(t *testing.T) {
	t.Parallel()
	server := single.get(t)
	w := newWorld(t, server.URL())
	user := fresh("u")
	a := w.answers()
	a.Keep(t.Context(), []dedup.Entry{kept(impart.UserID(user), "c-1a2b3c", 7)})
	key := "dedup:" + user + ":c-1a2b3c"
	until(t, "the key", func() bool { return do(t, server, "EXISTS", key) == "1" })
	var got map[string]any
	if err := json.Unmarshal([]byte(do(t, server, "GET", key)), &got); err != nil || got["msg_id"] != "mid-7" || got["seq"] != 7.0 || got["epoch"] != 3.0 {
		t.Errorf("it says %v: %v", got, err)
	}
	var left int64
	if _, err := fmt.Sscan(do(t, server, "PTTL", key), &left); err != nil || left > dedup.TTL.Milliseconds() || left < dedup.TTL.Milliseconds()-60_000 {
		t.Errorf("it goes in %d ms", left)
	}
}

// Whatever stands there that was not written here: nothing is found.
func TestWhatIsNoAnswerIsNotFound(t *testing.T) {
	t.Parallel()
	server := single.get(t)
	w := newWorld(t, server.URL())
	a := w.answers()
	user := fresh("u")
	sound := kept("u", "m", 7)
	good := encodeAnswer(&sound.Answer)
	for i, value := range []string{"1", "", "{", "null", "[]", good[:len(good)-9], strings.Replace(good, `"seq":7`, `"seq":0`, 1), strings.Replace(good, `"seq":7`, `"seq":"7"`, 1),
		strings.Replace(good, `"hash":"01`, `"hash":"`, 1), strings.Replace(good, "system/1", "", 1), strings.Replace(good, "mid-7", "", 1)} {
		cmid := impart.CMID(fmt.Sprint("m-", i))
		do(t, server, "SET", answerKey(impart.UserID(user), cmid), value)
		if got := find(a, kept(impart.UserID(user), cmid, 1)); got[0] != (dedup.Answer{}) {
			t.Errorf("in %q was found %+v", value, got[0])
		}
	}
	do(t, server, "LPUSH", answerKey(impart.UserID(user), "list"), "x")
	if got := find(a, kept(impart.UserID(user), "list", 1)); got[0] != (dedup.Answer{}) {
		t.Errorf("in a list was found %+v", got[0])
	}
}

// A Redis that is wiped, killed or frozen answers nothing, and nobody waits for it.
func TestNobodyWaitsForAnswers(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	w := newWorld(t, server.URL())
	a := w.answers()
	entry := kept("u-ana", "m-1", 1)
	keeps := func() {
		t.Helper()
		until(t, "an answer", func() bool {
			a.Keep(t.Context(), []dedup.Entry{kept("u-ana", "m-1", 1)})
			return find(a, entry)[0].Seq == 1
		})
	}
	keeps()
	if err := server.Wipe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if find(a, entry)[0].Seq != 0 {
		t.Error("found after a wipe")
	}
	for what, strike := range map[string][2]func(){
		"killed": {server.Kill, func() {
			if err := server.Start(t.Context()); err != nil {
				t.Error(err)
			}
		}},
		"frozen": {func() { _ = server.Pause() }, func() { _ = server.Resume() }},
	} {
		keeps()
		strike[0]()
		const sends = 2000
		began := time.Now()
		for range sends {
			find(a, entry)
			a.Keep(t.Context(), []dedup.Entry{kept("u-ana", "m-2", 2)})
		}
		// Once for the first failure, and then one send a second.
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("%s: %d sends waited for %v", what, sends, took)
		}
		if find(a, entry)[0].Seq != 0 {
			t.Errorf("%s: found", what)
		}
		strike[1]()
		keeps()
	}
}
