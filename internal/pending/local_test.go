package pending_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/impart-im/impart/internal/conformance"
	"github.com/impart-im/impart/internal/pending"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLocal(t *testing.T) {
	conformance.PendingInBubble(t, func(*testing.T) pending.Set { return pending.NewLocal() })
}
