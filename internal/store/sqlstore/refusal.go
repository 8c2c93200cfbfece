package sqlstore

import (
	"errors"

	"github.com/impart-im/impart"
)

func epochChanged(now impart.Epoch, format string, args ...any) error {
	err := impart.Errorf(impart.EpochChanged, format, args...)
	err.Epoch = now
	return err
}

// checkEpoch refuses a request of another epoch; 0 means the current one.
func checkEpoch(asked, now impart.Epoch) error {
	if asked == 0 || asked == now {
		return nil
	}
	return epochChanged(now, "the epoch is %d now: compare mids, then sync", now)
}

func notMember(conv impart.ConvID) error {
	return impart.Errorf(impart.NotMember, "you are not a member of %q, or it does not exist", conv)
}

func cursorAhead(seq, head impart.Seq) error {
	return impart.Errorf(impart.CursorAhead, "seq=%d head=%d", seq, head)
}

func staleInstall(device impart.DeviceID) error {
	return impart.Errorf(impart.StaleInstall, "device %q is registered with another install; only a hello over WebSocket can replace that one", device)
}

func staleSession(device impart.DeviceID) error {
	return impart.Errorf(impart.StaleInstall, "device %q has said hello on a newer connection; acknowledge there what its store holds", device)
}

func noConversation(conv impart.ConvID) error {
	return impart.Errorf(impart.NotFound, "there is no conversation %q", conv)
}

func closedError() error {
	return impart.Errorf(impart.Unavailable, "the store is closed; send this again once the server is back")
}

// refused reports whether err is an answer of the rules, not a failure.
func refused(err error) bool {
	var e *impart.Error
	return errors.As(err, &e)
}
