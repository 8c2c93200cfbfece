package client_test

import (
	"testing"
)

func TestAMessageArrives(t *testing.T) {
	story(t, func(w *server) {
		ana, ben := w.app("ana"), w.app("ben")
		ana.send(ab, "hi")
		ana.through()
		w.wantsLog(ab, "hi")
		ben.wants(ab, "hi")
		ana.wants(ab, "hi")
		ben.send(ab, "hello")
		ana.wants(ab, "hi", "hello")
	})
}
