//go:build !fault

package fault

import "testing"

func TestTheNormalBinaryHasNoFaults(t *testing.T) {
	if Enabled || Planted(NoDedup) {
		t.Error("faults are on")
	}
	if Set("") != nil || Set("gw.push:drop") == nil {
		t.Error("it takes faults, or refuses to have none")
	}
	for _, p := range Points() {
		if At(p) != nil {
			t.Errorf("it strikes at %s", p)
		}
	}
}
