package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/impart-im/impart/internal/store"
	"github.com/impart-im/impart/internal/store/sqlstore"
)

// storeFindings looks at the store without opening it, so that it may be done
// beside a running server and before an upgrade.
func storeFindings(ctx context.Context, c *config) []finding {
	path := storePath(c.Store)
	found, err := sqlstore.Inspect(ctx, c.Store)
	if errors.Is(err, os.ErrNotExist) {
		return []finding{{Check: "store", Verdict: good, Found: path + " is not there yet; the first start makes it"}}
	}
	if err != nil {
		return []finding{judge("store", "", storeError(c.Store, err), "a server would not start")}
	}
	findings := []finding{{Check: "store", Verdict: good, Found: path}, schemaFinding(found.Schema, found.Known)}
	findings = append(findings, settingFindings(found.Settings)...)
	return append(findings, finding{Check: "epoch", Verdict: good, Found: fmt.Sprint(found.Epoch)})
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
