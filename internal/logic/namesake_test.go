package logic

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/impart-im/impart/internal/store"
)

func TestANodeWarnsOnceOfAnotherOneOfItsName(t *testing.T) {
	var log bytes.Buffer
	f := &failover{s: &Service{log: slog.New(slog.NewTextHandler(&log, nil))}, node: store.Node{ID: "n", Name: "chat-1"}}
	f.tellNamesake(t.Context(), store.Beat{Number: 3, Namesakes: 1}) // the last beat of one that was killed
	f.tellNamesake(t.Context(), store.Beat{Number: 5})
	if log.Len() > 0 {
		t.Errorf("a warning too soon: %s", &log)
	}
	f.tellNamesake(t.Context(), store.Beat{Number: 6, Namesakes: 2})
	f.tellNamesake(t.Context(), store.Beat{Number: 7, Namesakes: 2})
	if said := log.String(); strings.Count(said, "IM_GATEWAY_ID") != 1 || !strings.Contains(said, "name=chat-1 others=2") {
		t.Errorf("it says: %s", said)
	}
}
