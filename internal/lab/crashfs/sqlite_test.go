package crashfs

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	_ "modernc.org/sqlite"
)

// These stories put a real SQLite, in a process of its own, on a disk that loses
// power, and count the rows that were acknowledged and are gone.

// writeRows adds rows until it is killed or its disk fails, and prints the number
// of each once it is committed. Checkpoints are frequent, so that cuts meet them.
func writeRows(path, synchronous string) {
	db := openRows(path, synchronous)
	db.SetMaxOpenConns(1)
	var last int
	err := db.QueryRow("SELECT coalesce(max(n), 0) FROM rows").Scan(&last)
	for n := last + 1; err == nil; n++ {
		if _, err = db.Exec("INSERT INTO rows VALUES (?, randomblob(500))", n); err == nil {
			_, err = fmt.Println(n)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func openRows(path, synchronous string) *sql.DB {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous("+synchronous+")&_pragma=wal_autocheckpoint(40)")
	if err == nil {
		_, err = db.Exec("CREATE TABLE IF NOT EXISTS rows (n INTEGER PRIMARY KEY, body BLOB)")
	}
	if err != nil {
		panic(err)
	}
	return db
}

// load runs a writer until the power is cut at its nth change, kills it, brings
// the power back, and gives the last row acknowledged, if any, and what the cut did.
func load(t *testing.T, disk *FS, path, synchronous string, mode Mode, seed uint64, nth int) (last int, cut Cut) {
	t.Helper()
	if err := disk.ArmCut(mode, seed, nth); err != nil {
		t.Fatal(err)
	}
	writer := exec.Command(os.Args[0], "rows", path, synchronous)
	out, err := writer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cut, err = disk.AwaitCut(ctx)
	_ = writer.Process.Kill() // what it acknowledged before is still to be read
	for acks := bufio.NewScanner(out); acks.Scan(); {
		last, _ = strconv.Atoi(acks.Text()) // nothing but numbers is printed
	}
	_ = writer.Wait() // it was killed, or found its disk without power
	if err != nil {
		t.Fatal(err)
	}
	if err := disk.Remount(); err != nil {
		t.Fatal(err)
	}
	return last, cut
}

// missing counts the rows up to last that are not there.
func missing(t *testing.T, path string, last int) int {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var there int
	var sound string
	if err := db.QueryRow("SELECT count(*) FROM rows WHERE n <= ?", last).Scan(&there); err != nil {
		t.Logf("counting rows: %v", err)
		return last
	}
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&sound); err != nil || sound != "ok" {
		t.Logf("integrity: %s, %v", sound, err)
		return last
	}
	return last - there
}

func prepared(t *testing.T) (*FS, string) {
	t.Helper()
	disk := mounted(t)
	path := filepath.Join(disk.Dir(), "rows.db")
	if err := openRows(path, "FULL").Close(); err != nil {
		t.Fatal(err)
	}
	return disk, path
}

// TestSQLiteLosesNothingToAPowerCut is SQLite as this project's store uses it: WAL
// and synchronous=FULL, on a disk that keeps its word.
func TestSQLiteLosesNothingToAPowerCut(t *testing.T) {
	disk, path := prepared(t)
	last, dropped, cycles := 0, 0, 24
	for cycle := range cycles {
		mode := []Mode{Clean, Torn, Prefix}[cycle%3]
		acked, cut := load(t, disk, path, "FULL", mode, uint64(cycle), 10+7*cycle)
		last = max(last, acked)
		dropped += cut.Dropped["rows.db"] + cut.Dropped["rows.db-wal"]
		if lost := missing(t, path, last); lost > 0 {
			t.Fatalf("cycle %d, %s: %d rows of %d are lost", cycle, mode, lost, last)
		}
	}
	got, err := disk.Counts()
	if err != nil || last < 100 || dropped < cycles/2 || got.PagesKept == 0 || got.Syncs == 0 || got.Cuts != cycles {
		t.Errorf("the fault did not bite: %d rows, %d pages dropped of the database and its log, %+v, %v", last, dropped, got, err)
	}
	t.Logf("%d rows, none lost; %d pages dropped of the database and its log; %+v", last, dropped, got)
}

// TestSQLiteLosesRowsWithoutItsFlushes is the twin: the same check finds losses
// where flushes are left out, or where the disk lies about them.
func TestSQLiteLosesRowsWithoutItsFlushes(t *testing.T) {
	for name, c := range map[string]struct {
		synchronous string
		faults      Faults
	}{
		"synchronous=OFF":    {"OFF", Faults{}},
		"synchronous=NORMAL": {"NORMAL", Faults{}},
		"flushes that lie":   {"FULL", Faults{SyncLies: true}},
	} {
		t.Run(name, func(t *testing.T) {
			disk, path := prepared(t)
			if err := disk.SetFaults(c.faults); err != nil {
				t.Fatal(err)
			}
			last, _ := load(t, disk, path, c.synchronous, Clean, 1, 200)
			lost := missing(t, path, last)
			if lost == 0 {
				t.Errorf("no row of %d is lost", last)
			}
			t.Logf("%d of %d rows are lost", lost, last)
		})
	}
}
