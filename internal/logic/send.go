package logic

import (
	"context"
	"crypto/sha256"
	"encoding/binary"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/store"
)

// Send implements [impart.Log].
func (s *Service) Send(ctx context.Context, sends []impart.Send) []impart.Sent {
	sent := make([]impart.Sent, len(sends))
	items := make([]store.Append, 0, len(sends))
	places := make([]int, 0, len(sends)) // items[i] is sends[places[i]]
	for i := range sends {
		sent[i].Conv = sends[i].Conv
		if err := s.admit(&sends[i]); err != nil {
			sent[i].Err = s.answer(ctx, "send", err)
			continue
		}
		item := s.message(&sends[i])
		if len(item.Body) > s.cfg.MaxBody {
			item.Refused = s.tooLarge(len(item.Body))
		}
		items = append(items, item)
		places = append(places, i)
	}
	for i, result := range s.resolve(ctx, "send", items) {
		sent[places[i]] = outcome(items[i].Conv, result)
	}
	return sent
}

// admit is what the service can say of a send without the store.
func (s *Service) admit(send *impart.Send) error {
	if err := s.checkSend(send); err != nil {
		return err
	}
	return s.budgets.spend(send.Sender, s.cfg.Now())
}

func (s *Service) checkSend(send *impart.Send) error {
	if err := checkID("conv", send.Conv); err != nil {
		return err
	}
	if err := impart.CheckID("cmid", string(send.CMID), impart.MaxCMID); err != nil {
		return err
	}
	// Below that, another node or an earlier setting may have let it be stored: whether
	// it was is asked first, as with every final refusal.
	if len(send.Body) > HighestMaxBody {
		return s.tooLarge(len(send.Body))
	}
	return first(
		checkID("sender", send.Sender),
		checkOptional("device", send.Device, impart.MaxID),
		checkOptional("prev", send.Prev, impart.MaxCMID),
		checkType(send.Type),
		checkText("body", send.Body),
		checkExt(send.Ext),
	)
}

func (s *Service) tooLarge(size int) *impart.Error {
	return impart.Errorf(impart.TooLarge, "body is %d bytes, at most %d are allowed", size, s.cfg.MaxBody)
}

// message is the event that a send asks for.
func (s *Service) message(send *impart.Send) store.Append {
	item := store.Append{
		Kind: impart.KindMsg, Sender: send.Sender, Device: send.Device, Conv: send.Conv,
		CMID: send.CMID, Prev: send.Prev, Type: send.Type, Body: send.Body, Ext: send.Ext, Epoch: send.Epoch,
	}
	if item.Type == "" {
		item.Type = impart.DefaultType
	}
	item.MID, item.At = s.stamp()
	item.Hash = contentHash(&item)
	return item
}

// contentHash tells two contents under one cmid apart. Every part is preceded by
// its length, so that no two contents give the same text to hash. Prev is no
// part of it: it may change between retries.
func contentHash(item *store.Append) [16]byte {
	var space [512]byte
	text := space[:0]
	for _, part := range [...]string{string(item.Kind), string(item.Conv), item.Type, item.Body, string(item.TargetMID)} {
		text = binary.AppendUvarint(text, uint64(len(part)))
		text = append(text, part...)
	}
	text = binary.AppendUvarint(text, uint64(len(item.Ext)))
	text = append(text, item.Ext...)
	text = binary.AppendVarint(text, int64(item.Target))
	sum := sha256.Sum256(text)
	return [16]byte(sum[:16])
}

// outcome is a committed item, or its refusal, as its sender sees it.
func outcome(conv impart.ConvID, result store.Appended) impart.Sent {
	if result.Err != nil {
		return impart.Sent{Conv: conv, Err: result.Err}
	}
	return impart.Sent{
		Conv: conv, Seq: result.Seq, MID: result.MID, Dup: result.Dup, Epoch: result.Epoch, At: result.At,
	}
}
