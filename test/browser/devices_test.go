package browser

import (
	"testing"

	"github.com/impart-im/impart/test/blackbox/impart"
)

func TestASecondTabTakesOverAndNobodyFights(t *testing.T) {
	t.Parallel()
	chromium.need(t)
	server := impart.Start(t)
	first := open(t, server.URL())
	first.ana.writes("from the first tab")
	first.ben.wants("from the first tab")

	second := first.sibling(server.URL())
	second.ana.wantsState("online")
	second.ben.wantsState("online")
	first.ana.wantsState("superseded")
	first.ben.wantsState("superseded")
	second.ana.wants("from the first tab")
	second.ana.writes("from the second tab")
	second.ben.wants("from the first tab", "from the second tab")

	first.ana.clicks(".curtain button")
	first.ana.wantsState("online")
	second.ana.wantsState("superseded")
	first.ana.wants("from the first tab", "from the second tab")
	first.ana.writes("and back")
	second.ben.wants("from the first tab", "from the second tab", "and back")
	first.ben.wantsState("superseded")
	second.ben.wantsState("online")
	wantsLog(t, server, ana("from the first tab"), ana("from the second tab"), ana("and back"))
	first.wantsNoFaults()
	second.wantsNoFaults()
}

func TestAnErasedDeviceComesBackAsANewInstall(t *testing.T) {
	t.Parallel()
	chromium.need(t)
	server := impart.Start(t)
	p := open(t, server.URL())
	p.ana.writes("one")
	p.ben.wants("one")
	p.ben.writes("two")
	p.ana.wants("one", "two")
	p.ben.wantsTick("two", "read")
	device := eval[string](p, `probe.device('u-ben')`)
	p.ben.clicks(".erase")
	eventually(t, "a second install epoch", func() bool {
		devices := server.Admin(t, "GET", "devices/"+device, nil).JSON.List("devices")
		return len(devices) == 1 && devices[0].Int("install_epoch") == 2
	})
	p.ben.wantsState("online")
	p.ben.wants("one", "two")
	p.ben.wantsTick("two", "read")
	if again := eval[string](p, `probe.device('u-ben')`); again != device {
		t.Errorf("the device is now %s, and was %s", again, device)
	}
	wantsNoDoubt(t, p, server)
	wantsLog(t, server, ana("one"), ben("two"))
	p.wantsNoFaults()
}
