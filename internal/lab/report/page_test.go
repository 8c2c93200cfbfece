package report

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/impart-im/impart/internal/lab"
)

// pageOf writes the page of a run with one check.
func pageOf(t *testing.T, check string, moments ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run-1")
	write(t, filepath.Join(dir, "result.json"), `{"run":"r","version":"v1","store":"sqlite","checks":[`+check+`]}`)
	write(t, filepath.Join(lab.Folder(dir, "power-cut", ""), "timeline.jsonl"), strings.Join(moments, "\n"))
	name, err := Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

const caughtTwin = `{"sabotage":"lying-disk","what":"the disk lies","caught":true,"observed":"6 of 6 lost","violated":["6 messages are gone"],"ms":1,"why":""}`

func TestACaughtTwinIsNoSuccessOfWhatItLost(t *testing.T) {
	page := pageOf(t, `{"id":"power-cut","invariant":"D6","verdict":"PASS","observed":"0 of 9 lost","why":"","bit":[{"what":"cuts","times":2}],"twins":[`+caughtTwin+`]}`)
	for _, want := range []string{
		`<strong>honest</strong> <span class="PASS">held</span> · 0 of 9 lost`,
		`<strong>twin lying-disk</strong> <span class="caught">caught</span> · the disk lies. With this guard off the check must fail, and it did</summary>`,
		"<li>6 messages are gone</li>", "Observed without the guard: 6 of 6 lost",
		`lying-disk <span class="caught">caught</span>`,
		"docs/guarantees.md", "docs/lab.md", "the fault bit</dt>", "a twin</dt>", "red</dt>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestAFailureGivesItsReasonWhereOneLooks(t *testing.T) {
	page := pageOf(t, `{"id":"power-cut","invariant":"D6","verdict":"FAIL","why":"2 messages are gone","bit":[{"what":"cuts","times":2}],"twins":[]}`)
	for _, want := range []string{
		`</a><p class="why FAIL">2 messages are gone</p>`,                                                    // in the table
		`<span class="verdict FAIL">FAIL</span></h2>` + "\n" + `<p class="why FAIL">2 messages are gone</p>`, // at the check
		`<details open>` + "\n" + `<summary><strong>honest</strong> <span class="FAIL">failed: 2 messages are gone</span>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	twin := strings.Replace(caughtTwin, `true`, `false`, 1)
	page = pageOf(t, `{"id":"power-cut","invariant":"D6","verdict":"FAIL","why":"the twin lying-disk was not caught","bit":[{"what":"cuts","times":2}],"twins":[`+twin+`]}`)
	for _, want := range []string{`<span class="PASS">held</span>`, `<span class="FAIL">not caught</span>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of a twin that was not caught lacks %q", want)
		}
	}
}

func TestManyMomentsHideNoKill(t *testing.T) {
	var moments []lab.Moment
	for i := range 5000 {
		moments = append(moments, lab.Moment{What: []string{"send", "sent", "struck", "hint"}[i%4], Text: fmt.Sprint(i)})
		if i%500 == 0 {
			moments = append(moments, lab.Moment{What: "killed"})
		}
	}
	shown := choose(moments)
	count := func(what string) (n int) {
		for _, m := range shown {
			if m.What == what {
				n++
			}
		}
		return n
	}
	if count("killed") != 10 || count("struck") != maxShown || count("send") != maxShown || len(shown) > 5*maxShown {
		t.Errorf("%d kills, %d strikes, %d sends, %d in all", count("killed"), count("struck"), count("send"), len(shown))
	}
	first := slices.IndexFunc(shown, func(m lab.Moment) bool { return m.What == "struck" })
	if first < 0 || shown[first].Text != "2" {
		t.Error("the first strike is not there")
	}
}
