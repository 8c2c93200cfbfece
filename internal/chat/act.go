package chat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/client"
)

// outcome is what an order has led to.
type outcome struct {
	say  string        // for the user; "": nothing to say
	sent []impart.CMID // items that are in the outbox now
	gone impart.CMID   // an item that has left it without an answer
	read impart.Seq    // the read cursor of the conversation, if it was moved
}

// act carries out an order in a conversation. Its error is worded for the user.
func (c *Chat) act(ctx context.Context, conv impart.ConvID, o order) (outcome, error) {
	switch o.word {
	case "":
		cmid, err := c.Send(ctx, client.Draft{Conv: conv, Body: o.text})
		return outcome{sent: []impart.CMID{cmid}}, c.worded(conv, err)
	case "recall":
		cmid, err := c.Recall(ctx, conv, o.seq)
		return outcome{sent: []impart.CMID{cmid}}, c.worded(conv, err)
	case "read":
		return c.read(ctx, conv, o.seq)
	case "who":
		return c.who(ctx, conv, o.seq)
	case "cancel":
		return c.cancel(ctx, conv, o.ref)
	case "retry", "dismiss":
		return c.refusedItem(ctx, conv, o)
	case "reconnect":
		c.Reconnect()
		return outcome{}, nil
	case "help":
		return outcome{say: Orders()}, nil
	}
	return outcome{}, fmt.Errorf("/%s is for the screen", o.word)
}

func (c *Chat) read(ctx context.Context, conv impart.ConvID, seq impart.Seq) (outcome, error) {
	if seq == 0 {
		here, found, err := c.state(ctx, conv)
		if err != nil {
			return outcome{}, err
		}
		if !found {
			return outcome{}, fmt.Errorf("nothing of %s is here", plain(string(conv)))
		}
		seq = here.Stored
	}
	return outcome{read: seq}, c.worded(conv, c.Read(ctx, conv, seq))
}

// state is what the store holds of a conversation, and whether it does.
func (c *Chat) state(ctx context.Context, conv impart.ConvID) (client.Conversation, bool, error) {
	list, err := c.Conversations(ctx)
	for _, each := range list {
		if each.Conv == conv {
			return each, true, nil
		}
	}
	return client.Conversation{}, false, err
}

func (c *Chat) cancel(ctx context.Context, conv impart.ConvID, ref string) (outcome, error) {
	list, err := c.Outbox(ctx)
	if err != nil {
		return outcome{}, err
	}
	list = slices.DeleteFunc(list, func(it client.Item) bool { return it.Kind != impart.KindMsg })
	it, rest, err := choose(list, conv, ref, waiting)
	if err != nil {
		return outcome{}, err
	}
	done, err := c.Cancel(ctx, it.CMID)
	switch {
	case err != nil:
		return outcome{}, c.worded(conv, err)
	case done == client.Recalling:
		return outcome{say: named(&it) + " was stored already and is being recalled" + rest}, nil
	}
	return outcome{say: named(&it) + " was taken back before it was stored" + rest, gone: it.CMID}, nil
}

func (c *Chat) refusedItem(ctx context.Context, conv impart.ConvID, o order) (outcome, error) {
	list, err := c.Refused(ctx)
	if err != nil {
		return outcome{}, err
	}
	it, rest, err := choose(list, conv, o.ref, refused)
	if err != nil {
		return outcome{}, err
	}
	if o.word == "dismiss" {
		return outcome{say: named(&it) + " is forgotten" + rest}, c.worded(it.Conv, c.Dismiss(ctx, it.CMID))
	}
	var cmid impart.CMID
	if it.Kind == impart.KindRecall {
		cmid, err = c.Recall(ctx, it.Conv, it.Target)
	} else {
		cmid, err = c.Send(ctx, client.Draft{Conv: it.Conv, Body: it.Body, Type: it.Type, Ext: it.Ext})
	}
	if err != nil {
		return outcome{}, c.worded(conv, err)
	}
	return outcome{say: named(&it) + " is sent again" + rest, sent: []impart.CMID{cmid}}, c.worded(it.Conv, c.Dismiss(ctx, it.CMID))
}

// named is an item in an answer about it: nobody has to guess which one was meant.
func named(it *client.Item) string {
	const most = 40
	if it.Kind == impart.KindRecall {
		return fmt.Sprintf("%s (recall of %d)", shortRef(it.CMID), it.Target)
	}
	return fmt.Sprintf("%s (%s)", shortRef(it.CMID), cut(plain(it.Body), most))
}

// standing is what is said of one item and of several.
type standing struct{ one, several string }

var (
	waiting = standing{"waits", "wait"}
	refused = standing{"was refused", "were refused"}
)

// choose finds the item whose cmid ends with ref, or the newest of the conversation.
// rest says how many more there were to choose from; "" for none.
func choose(list []client.Item, conv impart.ConvID, ref string, what standing) (it client.Item, rest string, err error) {
	var found []client.Item
	for _, it := range list {
		if ref != "" && strings.HasSuffix(string(it.CMID), ref) || ref == "" && it.Conv == conv {
			found = append(found, it)
		}
	}
	switch {
	case len(found) == 0 && ref == "":
		return it, "", fmt.Errorf("nothing of %s %s", plain(string(conv)), what.one)
	case len(found) == 0:
		return it, "", fmt.Errorf("nothing that %s ends with %s", what.one, plain(ref))
	case len(found) > 1 && ref != "":
		return it, "", fmt.Errorf("%d items end with %s: give more of the cmid", len(found), plain(ref))
	case len(found) == 2:
		rest = "; 1 more " + what.one
	case len(found) > 2:
		rest = fmt.Sprintf("; %d more %s", len(found)-1, what.several)
	}
	return found[len(found)-1], rest, nil
}

// who asks the server for everybody who may see a message.
func (c *Chat) who(ctx context.Context, conv impart.ConvID, seq impart.Seq) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	users, err := c.report(ctx, conv, seq)
	if err != nil {
		return outcome{}, c.worded(conv, err)
	}
	var b strings.Builder
	for _, u := range users {
		read := "not read"
		if u.Read {
			read = "read"
		}
		fmt.Fprintf(&b, "%s: on %d of %d devices, %s\n", plain(string(u.User)), u.Delivered, u.Devices, read)
	}
	return outcome{say: b.String()}, nil
}

// report pages through who has a message.
func (c *Chat) report(ctx context.Context, conv impart.ConvID, seq impart.Seq) ([]impart.UserReport, error) {
	var users []impart.UserReport
	after := impart.UserID("")
	for {
		page, err := c.Who(ctx, conv, seq, after)
		users = append(users, page.Users...)
		if err != nil || !page.More || len(page.Users) == 0 {
			return users, err
		}
		after = page.Users[len(page.Users)-1].User
	}
}

// worded makes an error about a conversation one line for the user.
func (c *Chat) worded(conv impart.ConvID, err error) error {
	var refusal *impart.Error
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("the server has not answered in time")
	}
	if errors.As(err, &refusal) && refusal.Code == impart.NotMember {
		return errors.New(notMember(c.user, conv))
	}
	if errors.As(err, &refusal) && refusal.Code == impart.CursorAhead {
		return fmt.Errorf("there is nothing of this number here yet (%s)", plain(refusal.Message))
	}
	if errors.As(err, &refusal) {
		return fmt.Errorf("%s: %s", refusal.Code, plain(refusal.Message))
	}
	return err
}
