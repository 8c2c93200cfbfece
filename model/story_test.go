package main

import (
	"slices"
	"strings"
	"testing"
)

const told = `proctype Node(byte me) {
end:	do
	:: atomic { /* take a request */
		req != 0 ->
		faults--
	   };
	   atomic { /* commit */
		d_step { insert() }; /* found after the restart */
		assert(copies == 1) /* D2 */
	   }
	od
}
inline insert() {
	rows++
}
`

const replay = "Starting Node with pid 1\n" +
	"  1:\tproc  0 (:init::1) a.pml:1 (state 1)\t[(run Node(0))]\n" +
	"  2:\tproc  1 (Node:1) a.pml:4 (state 2)\t[((req!=0))]\n" +
	"  2:\tproc  1 (Node:1) a.pml:5 (state 3)\t[faults = (faults-1)]\n\t\tfaults = 0\n" +
	"  3:\tproc  2 (Node:1) a.pml:4 (state 2)\t[((req!=0))]\n" +
	"  4:\tproc  2 (Node:1) a.pml:8 (state 5)\t[sub-sequence]\n" +
	"  4:\tproc  2 (Node:1) a.pml:14 (state 6)\t[rows = (rows+1)]\n" +
	"spin: a.pml:9, Error: assertion violated\n"

func TestAReplayIsToldInTheWordsOfTheModel(t *testing.T) {
	const want = `   1  Node 1: take a request; a fault strikes
   2  Node 2: take a request
   3  Node 2: commit; found after the restart
   4  and that fails: assert(copies == 1) /* D2 */
`
	if got := story(model{text: told}, replay); got != want {
		t.Errorf("it tells\n%swant\n%s", got, want)
	}
	if round := story(model{text: told}, "<<<<<START OF CYCLE>>>>>\n"+replay); !strings.HasPrefix(round, "   1  from here on it goes round") {
		t.Errorf("of an endless run it tells\n%s", round)
	}
}

// TestEveryBlockHasWords: a block without a comment would be told as code.
func TestEveryBlockHasWords(t *testing.T) {
	models, err := readModels(files)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range models {
		for i, line := range strings.Split(m.text, "\n") {
			if found := blockLine.FindStringSubmatch(line); found != nil && found[1] == "" && strings.Contains(line, "atomic {") {
				t.Errorf("%s.pml:%d says in no comment what its block does", m.name, i+1)
			}
		}
	}
}

func TestNearNames(t *testing.T) {
	names := []string{"send", "deliver", "send/NO_DEDUP", "send/NO_PREV", "deliver/NO_SWEEP", "send"}
	for pattern, want := range map[string]string{
		"send/NO_DEDUPE": "send/NO_DEDUP",
		"sweep$$":        "deliver/NO_SWEEP",
		"xyz":            "deliver",
	} {
		if got := near(pattern, names); len(got) == 0 || got[0] != want || slices.Contains(got[1:], want) {
			t.Errorf("near %q is %v, want %s first", pattern, got, want)
		}
	}
}
