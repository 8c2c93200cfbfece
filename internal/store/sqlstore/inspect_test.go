package sqlstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestInspectLooksBesideAServerAndChangesNothing(t *testing.T) {
	ctx := context.Background()
	folder := t.TempDir()
	dsn := "sqlite:" + filepath.Join(folder, "impart.db")
	if _, err := Inspect(ctx, dsn); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("a store that is not there gives %v", err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
		t.Fatalf("looking left %v, %v", left, err)
	}
	s, err := Open(ctx, dsn, Options{})
	if err != nil {
		t.Fatal(err)
	}
	epoch, err := s.RaiseEpoch(ctx, 1_700_000_000_000)
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		found, err := Inspect(ctx, dsn)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if found.Epoch != epoch || found.Schema != found.Known || found.Known == 0 || len(found.Settings) == 0 {
			t.Errorf("%s: found %+v, want epoch %d and the newest schema", when, found, epoch)
		}
		for _, setting := range found.Settings {
			if !setting.Safe {
				t.Errorf("%s: %s is %s, want %s", when, setting.Name, setting.Value, setting.Want)
			}
		}
	}
	check("while it is open")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check("while it is closed")
}

func TestInspectRefusesWhatIsNoStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "impart.db")
	if err := os.WriteFile(path, []byte("this is text, and long enough to be taken for the header of a database file, which it is not"), 0o600); err != nil {
		t.Fatal(err)
	}
	if found, err := Inspect(context.Background(), "sqlite:"+path); err == nil {
		t.Errorf("found %+v in a text", found)
	}
	if _, err := Inspect(context.Background(), "postgres://u:hunter2@db/x"); err == nil {
		t.Error("inspects another database")
	}
}
