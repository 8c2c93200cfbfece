package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/impart-im/impart/internal/store"
	"github.com/impart-im/impart/internal/store/sqlstore"
)

// storeFindings looks at the store without opening it, so that it may be done
// beside a running server and before an upgrade.
func storeFindings(ctx context.Context, c *config) []finding {
	if onServer(c.Store) {
		return databaseFindings(ctx, c)
	}
	path := storePath(c.Store)
	found, err := sqlstore.Inspect(ctx, c.Store)
	if errors.Is(err, os.ErrNotExist) {
		return []finding{{Check: "store", Verdict: good, Found: path + " is not there yet; the first start makes it"}}
	}
	if err != nil {
		return []finding{judge("store", "", storeError(c.Store, err), "a server would not start")}
	}
	findings := []finding{secretFinding(path), schemaFinding(found.Schema, found.Known)}
	findings = append(findings, settingFindings(found.Settings)...)
	return append(findings, finding{Check: "epoch", Verdict: good, Found: fmt.Sprint(found.Epoch)})
}

// secretFinding judges who can read the store. A server makes it for its own user
// alone; a copy that was put in its place has whatever the copying gave it.
func secretFinding(path string) finding {
	f := finding{Check: "store", Verdict: good, Found: path}
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS == "windows" { // there the mode says nothing
		return f
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		f.Verdict = warn
		f.Found = fmt.Sprintf("%s has mode %04o: others than its owner can read or change it", path, mode)
		f.Advice = "it holds every message in plain text: chmod 600 it, and its -wal and -shm if they are there"
	}
	return f
}

// schemaFinding compares the version in the file with the newest one known.
func schemaFinding(have, known int64) finding {
	f := finding{Check: "schema", Verdict: good, Found: fmt.Sprintf("version %d", have)}
	switch {
	case have > known:
		f.Verdict, f.Advice = fail, fmt.Sprintf("this binary knows up to version %d: use the newer one that wrote it", known)
	case have < known:
		f.Verdict, f.Advice = warn, fmt.Sprintf("the next start brings it to version %d, and older binaries can then not use it: make a backup before", known)
	}
	return f
}

// settingFindings judges the settings on which D1 and D6 rest.
func settingFindings(settings []store.Setting) []finding {
	var findings []finding
	for _, s := range settings {
		f := finding{Check: s.Name, Verdict: good, Found: s.Value}
		if !s.Safe {
			f.Verdict, f.Advice = fail, fmt.Sprintf("should be %s: %s", s.Want, s.Why)
		}
		findings = append(findings, f)
	}
	return findings
}
