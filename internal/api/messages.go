package api

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

// send stores one message under the names that the send API has for its fields.
func (s *server) send(c *call) error {
	frame, err := wire.DecodeSendRequest(c.body)
	if err != nil {
		return err
	}
	session, err := c.session()
	if err != nil {
		return err
	}
	sent, err := c.store(session.User, frame)
	if err != nil {
		return err
	}
	return c.reply(appendReceipt(nil, sent))
}

// store sends one frame. The message counts as sent by no connection, so that
// every device of its sender gets the event, the requesting one too.
func (c *call) store(sender impart.UserID, frame *wire.Send) (impart.Sent, error) {
	sents := c.Logic.Send(c.r.Context(), []impart.Send{{
		Sender: sender, Conv: frame.Conv, CMID: frame.CMID, Prev: frame.Prev,
		Type: frame.Type, Body: frame.Body, Ext: frame.Ext, Epoch: frame.Epoch,
	}})
	if len(sents) != 1 {
		return impart.Sent{}, impart.Errorf(impart.Unavailable, "the server could not finish this; send it again unchanged")
	}
	return sents[0], sents[0].Err
}

// appendReceipt appends {"msg_id","seq","dup","epoch"}.
func appendReceipt(dst []byte, sent impart.Sent) []byte {
	dst = append(dst, `{"msg_id":`...)
	dst, _ = jsontext.AppendQuote(dst, string(sent.MID)) // a mid is the server's own ASCII
	dst = append(dst, `,"seq":`...)
	dst = appendInt(dst, int64(sent.Seq))
	dst = append(dst, `,"dup":`...)
	dst = appendBool(dst, sent.Dup)
	dst = append(dst, `,"epoch":`...)
	return append(appendInt(dst, int64(sent.Epoch)), '}')
}

func (s *server) recall(c *call) error {
	frame, err := decode[*wire.Recall](c, "recall")
	if err != nil {
		return err
	}
	session, err := c.session()
	if err != nil {
		return err
	}
	sent, err := s.Logic.Recall(c.r.Context(), impart.Recall{
		Sender: session.User, Conv: frame.Conv, Seq: frame.Seq, CMID: frame.CMID, MID: frame.MID, Epoch: frame.Epoch,
	})
	if err != nil {
		return err
	}
	if sent.Err != nil {
		return sent.Err
	}
	return c.reply(wire.Sent{Sent: sent}.AppendBody(nil))
}

func (s *server) sync(c *call) error {
	frame, err := decode[*wire.Sync](c, "sync")
	if err != nil {
		return err
	}
	session, err := c.session()
	if err != nil {
		return err
	}
	page, err := s.Logic.Sync(c.r.Context(), impart.Sync{
		User: session.User, Conv: frame.Conv, After: frame.After, Before: frame.Before,
		AfterMID: frame.AfterMID, Limit: limit(frame.Limit), Epoch: frame.Epoch,
	})
	if err != nil {
		return err
	}
	return c.reply(wire.Synced{Back: frame.Before != nil, Page: page}.AppendBody(nil))
}

func (s *server) pull(c *call) error {
	frame, err := decode[*wire.Pull](c, "pull")
	if err != nil {
		return err
	}
	session, err := c.deviceSession()
	if err != nil {
		return err
	}
	pulled, err := s.Logic.Pull(c.r.Context(), impart.Pull{Session: session, Limit: limit(frame.Limit)})
	if err != nil {
		return err
	}
	return c.reply(wire.Pulled{Pulled: pulled}.AppendBody(nil))
}

// decode reads the body as the fields of frame t.
func decode[F wire.Frame](c *call, t string) (F, error) {
	var none F
	body := c.body
	if len(body) == 0 {
		body = []byte("{}") // only where the body may be left out
	}
	frame, err := wire.DecodeAs(t, body)
	if err != nil {
		return none, err
	}
	read, ok := frame.(F)
	if !ok {
		return none, impart.Errorf(impart.BadFrame, "the body is not a %s", t)
	}
	return read, nil
}

// limit is a page's limit, or the default where none is asked for.
func limit(asked *int) int {
	if asked == nil {
		return impart.DefaultLimit
	}
	return *asked
}
