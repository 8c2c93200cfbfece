package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/impart-im/impart/internal/api"
	"github.com/impart-im/impart/internal/store"
)

// sickStore answers nothing but how it is.
type sickStore struct {
	store.Store
	ping    error
	failing bool
}

func (s sickStore) Ping(context.Context) error { return s.ping }
func (s sickStore) Stats() store.Stats         { return store.Stats{Failing: s.failing} }

// On a full disk what is there can still be read: the server stays in service,
// and says what is wrong.
func TestReadinessTellsAFullDiskFromADeadOne(t *testing.T) {
	for _, c := range []struct {
		store  sickStore
		state  api.State
		detail string
	}{
		{sickStore{}, api.OK, ""},
		{sickStore{failing: true}, api.Warn, "a full disk"},
		{sickStore{ping: errors.New("gone"), failing: true}, api.Fail, "does not answer"},
	} {
		got := (&parts{store: c.store}).storeCheck(t.Context())
		if got.Name != "store" || got.State != c.state || !strings.Contains(got.Detail, c.detail) {
			t.Errorf("%+v: %+v, want %s with %q", c.store, got, c.state, c.detail)
		}
	}
}
