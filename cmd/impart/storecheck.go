package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/impart-im/impart/internal/store"
	"github.com/impart-im/impart/internal/store/sqlstore"
)

// storeFindings asks the store for the settings on which D1 and D6 rest. A store
// that is not there yet is not made: looking must change nothing.
func storeFindings(ctx context.Context, c *config) []finding {
	path := storePath(c.Store)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return []finding{{Check: "store", Verdict: good, Found: path + " is not there yet; the first start makes it"}}
	}
	s, err := sqlstore.Open(ctx, c.Store, sqlstore.Options{})
	if err != nil {
		return []finding{judge("store", "", storeError(c.Store, err), "a server would not start")}
	}
	found, err := settingFindings(ctx, s)
	if closed := s.Close(); err == nil {
		err = closed
	}
	return append(found, judge("store", path+" opens, answers and closes", err, "a server would not start"))
}

func settingFindings(ctx context.Context, s store.Store) ([]finding, error) {
	settings, err := s.Settings(ctx)
	if err != nil {
		return nil, err
	}
	var findings []finding
	for _, setting := range settings {
		f := finding{Check: "store " + setting.Name, Verdict: good, Found: setting.Value}
		if !setting.Safe {
			f.Verdict = fail
			f.Advice = fmt.Sprintf("should be %s: %s", setting.Want, setting.Why)
		}
		findings = append(findings, f)
	}
	meta, err := s.Meta(ctx)
	if err != nil {
		return findings, err
	}
	return append(findings, finding{Check: "epoch", Verdict: good, Found: fmt.Sprint(meta.Epoch)}), nil
}
