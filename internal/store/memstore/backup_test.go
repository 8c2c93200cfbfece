package memstore_test

import (
	"testing"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store/memstore"
)

func TestABackupDoesNotChangeWithItsStore(t *testing.T) {
	s := memstore.New(memstore.Options{})
	defer s.Close()
	if _, err := s.PutUser(t.Context(), "u-ana", nil, nil); err != nil {
		t.Fatal(err)
	}
	b := s.Backup()
	if _, err := s.RaiseEpoch(t.Context(), 50); err != nil {
		t.Fatal(err)
	}
	restored := b.Reopen()
	defer restored.Close()
	meta, err := restored.Meta(t.Context())
	if err != nil || meta.Epoch != impart.Epoch(1) {
		t.Errorf("the restored store has epoch %d, %v; the backup was made in epoch 1", meta.Epoch, err)
	}
	if meta, err := s.Meta(t.Context()); err != nil || meta.Epoch != 50 {
		t.Errorf("the store itself has epoch %d, %v", meta.Epoch, err)
	}
}
