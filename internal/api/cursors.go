package api

import (
	"strconv"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

// ack merges what the device has stored. What concerns the whole request is
// answered as its error; a list otherwise fails item by item.
func (s *server) ack(c *call) error {
	frame, err := decode[*wire.Ack](c, "ack")
	if err != nil {
		return err
	}
	session, err := c.deviceSession()
	if err != nil {
		return err
	}
	acked := s.Logic.Ack(c.r.Context(), impart.Ack{Session: session, N: frame.N, Epoch: frame.Epoch, Items: frame.Items})
	if len(acked) != len(frame.Items) {
		return impart.Errorf(impart.Unavailable, "the server could not finish this; send it again unchanged")
	}
	if err := wholeError(frame.Batch, acked); err != nil {
		return err
	}
	return c.reply(wire.Acked{Batch: frame.Batch, Items: acked}.AppendBody(nil))
}

// wholeError is the error of an ack as a whole: that of a single one, or one
// that concerns the request and so stands in every result.
func wholeError(batch bool, acked []impart.Acked) error {
	if len(acked) == 0 {
		return nil
	}
	first := acked[0].Err
	if !batch {
		return first
	}
	switch impart.CodeOf(first) {
	case impart.Unauthenticated, impart.StaleInstall, impart.EpochChanged, impart.RateLimited, impart.Overloaded, impart.Unavailable:
	default:
		return nil
	}
	for _, item := range acked[1:] {
		if impart.CodeOf(item.Err) != impart.CodeOf(first) {
			return nil
		}
	}
	return first
}

func (s *server) read(c *call) error {
	frame, err := decode[*wire.Read](c, "read")
	if err != nil {
		return err
	}
	session, err := c.session()
	if err != nil {
		return err
	}
	seq, err := s.Logic.Read(c.r.Context(), impart.Read{Session: session, Conv: frame.Conv, Seq: frame.Seq, Epoch: frame.Epoch})
	if err != nil {
		return err
	}
	return c.reply(wire.Readed{Conv: frame.Conv, Read: seq}.AppendBody(nil))
}

func (s *server) who(c *call) error {
	frame, err := decode[*wire.Who](c, "who")
	if err != nil {
		return err
	}
	session, err := c.session()
	if err != nil {
		return err
	}
	report, err := s.Logic.Who(c.r.Context(), impart.Who{
		User: session.User, Conv: frame.Conv, Seq: frame.Seq, After: frame.After, Limit: limit(frame.Limit),
	})
	if err != nil {
		return err
	}
	return c.reply(wire.Whos{Conv: frame.Conv, Seq: frame.Seq, Report: report}.AppendBody(nil))
}

func appendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

func appendBool(dst []byte, b bool) []byte { return strconv.AppendBool(dst, b) }
