package chat

import (
	"context"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
)

// sight is what the screen shows of the store and the connection, read in one go.
type sight struct {
	status  client.Status
	convs   []convLine
	conv    impart.ConvID  // whose log this is
	log     []impart.Event // the newest of conv, ascending
	first   impart.Seq     // the store's log begins after it
	floor   impart.Seq
	waiting []client.Item // of all conversations
	refused []client.Item
}

// convLine is one conversation in the list.
type convLine struct {
	id     impart.ConvID
	stored impart.Seq
	read   impart.Seq
	unread int // messages of others, at most maxUnread
}

const maxUnread = 1000

// observer reads sights. One look at a time.
type observer struct {
	*Chat
	counted map[impart.ConvID]convLine // so that only what has moved is counted again
}

// look reads a sight with the newest rows events of a conversation; "" for the one
// that is most in need of it.
func (o *observer) look(ctx context.Context, conv impart.ConvID, rows int) (sight, error) {
	s := sight{status: o.Status(), conv: conv}
	list, err := o.Conversations(ctx)
	if err != nil {
		return s, err
	}
	for _, each := range list {
		line, err := o.count(ctx, each)
		if err != nil {
			return s, err
		}
		s.convs = append(s.convs, line)
	}
	if s.conv == "" {
		s.conv = s.neediest()
	}
	if s.waiting, err = o.Outbox(ctx); err != nil {
		return s, err
	}
	if s.refused, err = o.Refused(ctx); err != nil {
		return s, err
	}
	for _, each := range list {
		if each.Conv == s.conv {
			s.first, s.floor = each.Start, each.Floor
			s.log, err = o.Events(ctx, s.conv, max(each.Start, each.Stored-impart.Seq(rows)), rows)
		}
	}
	return s, err
}

// count counts the unread messages of a conversation.
func (o *observer) count(ctx context.Context, c client.Conversation) (convLine, error) {
	line := convLine{id: c.Conv, stored: c.Stored, read: c.Read}
	if last, known := o.counted[c.Conv]; known && last.stored == line.stored && last.read == line.read {
		return last, nil
	}
	events, err := o.Events(ctx, c.Conv, c.Read, maxUnread)
	for i := range events {
		if ev := &events[i]; ev.Kind == impart.KindMsg && ev.Sender != o.user && !ev.Recalled {
			line.unread++
		}
	}
	o.counted[c.Conv] = line
	return line, err
}

// neediest is the first conversation with something unread, or the first of all.
func (s *sight) neediest() impart.ConvID {
	for _, c := range s.convs {
		if c.unread > 0 {
			return c.id
		}
	}
	if len(s.convs) > 0 {
		return s.convs[0].id
	}
	return ""
}

// line is the list's line of a conversation; nil: it is not in the store.
func (s *sight) line(conv impart.ConvID) *convLine {
	for i := range s.convs {
		if s.convs[i].id == conv {
			return &s.convs[i]
		}
	}
	return nil
}
