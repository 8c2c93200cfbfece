package blackbox

import (
	"fmt"
	"testing"

	"github.com/impart-im/impart/test/blackbox/rawclient"
)

func TestReadCursorIsSharedAndMonotonic(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	w.online("ben", "phone").sendMany(ab, "k", 5)
	phone, tablet := w.online("ana", "phone"), w.online("ana", "tablet")
	f := phone.want("readed", F{"t": "read", "conv": ab, "seq": 3, "epoch": phone.welcome.Int("epoch")})
	shaped(t, f.Object, readedShape)
	if f.Str("conv") != ab || f.Int("read") != 3 {
		t.Errorf("readed %s", f.Object)
	}
	if f := tablet.want("readed", F{"t": "read", "conv": ab, "seq": 1}); f.Int("read") != 3 {
		t.Errorf("readed %s, want the merged cursor 3", f.Object)
	}
	if c := tablet.convsOf()[ab]; c.Int("read") != 3 || c.Int("unread") != 2 {
		t.Errorf("%s: want read 3, unread 2", c)
	}
	if f := tablet.want("subbed", F{"t": "sub"}); f.List("convs")[0].Int("read") != 3 {
		t.Errorf("subbed %s, want read 3", f.Object)
	}
}

func TestReadNeedsAMembership(t *testing.T) {
	w := onShared(t)
	bc := w.conv("bc", "ben", "cai")
	ana := w.online("ana", "phone")
	ana.refuse("NOT_MEMBER", F{"t": "read", "conv": bc, "seq": 0})
	ana.refuse("NOT_MEMBER", F{"t": "read", "conv": "c-none" + w.ns, "seq": 0})
}

func isReceipt(conv, user string, delivered, read int64) func(rawclient.Frame) bool {
	return func(f rawclient.Frame) bool {
		return f.T() == "receipt" && f.Str("conv") == conv && f.Str("user") == user && f.Int("delivered") == delivered && f.Int("read") == read
	}
}

// A receipt goes to the other members and to one's own other devices, never to the connection that caused it.
func TestReceipts(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	w.conv("bc", "ben", "cai")
	ana, cai := w.online("ana", "phone"), w.online("cai", "phone")
	phone, tablet := w.online("ben", "phone"), w.online("ben", "tablet")
	ana.sendMany(ab, "k", 3)
	phone.event(ab, 3)

	phone.ack(ab, 2)
	for _, c := range []*client{ana, tablet} {
		f := c.await("the receipt", 0, isReceipt(ab, w.user("ben"), 2, 0))
		shaped(t, f.Object, receiptShape)
	}
	phone.want("readed", F{"t": "read", "conv": ab, "seq": 1})
	for _, c := range []*client{ana, tablet} {
		c.await("the read receipt", 0, isReceipt(ab, w.user("ben"), 2, 1))
	}
	// The tablet is behind: the furthest of the user's devices counts, so nothing new is told.
	mark := ana.Mark()
	tablet.ack(ab, 1)
	tablet.ack(ab, 3)
	f := ana.await("the tablet's receipt", mark, isT("receipt"))
	if !isReceipt(ab, w.user("ben"), 3, 1)(f) {
		t.Errorf("receipt %s, want delivered 3: the ack of 1 was behind", f.Object)
	}
	phone.await("the tablet's receipt", 0, isReceipt(ab, w.user("ben"), 3, 1))
	for _, f := range phone.Frames() {
		if f.T() == "receipt" && f.Int("delivered") < 3 {
			t.Errorf("the phone got a receipt that it caused itself: %s", f.Object)
		}
	}
	cai.none("a receipt of a conversation that is not cai's", 0, isT("receipt"))
}

// An ack that moves nothing tells nothing.
func TestRepeatedAcksMakeNoReceipts(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben")
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	ana.sendMany(ab, "k", 2)
	ben.ack(ab, 2)
	ana.await("the receipt", 0, isReceipt(ab, w.user("ben"), 2, 0))
	mark := ana.Mark()
	ben.ack(ab, 2)
	ben.ack(ab, 1)
	ana.none("a receipt for nothing new", mark, isT("receipt"))
}

// Receipts are told in conversations of up to 50 members.
func TestReceiptsEndAtFiftyMembers(t *testing.T) {
	w := onShared(t)
	members := []string{"ana", "ben"}
	for i := range 48 {
		members = append(members, fmt.Sprint("m", i))
	}
	fifty := w.conv("fifty", members...)
	more := w.conv("fifty-one", append(members, "m48")...)
	ana, ben := w.online("ana", "phone"), w.online("ben", "phone")
	ana.send(fifty, "k1", "x")
	ana.send(more, "k2", "x")
	ben.ack(more, 1)
	ben.want("readed", F{"t": "read", "conv": more, "seq": 1})
	ben.ack(fifty, 1)
	ana.await("the receipt in a conversation of 50", 0, isReceipt(fifty, w.user("ben"), 1, 0))
	ana.none("a receipt in a conversation of 51", 0, func(f rawclient.Frame) bool { return f.T() == "receipt" && f.Str("conv") == more })
	if f := ana.want("whos", F{"t": "who", "conv": more, "seq": 1}); f.T() != "whos" {
		t.Error("who does not answer instead")
	}
}

// A receipt tells no more than the recipient's head: one who has left learns nothing of what came after.
func TestReceiptsTellNoMoreThanTheHead(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben", "leo")
	ana, ben, leo := w.online("ana", "phone"), w.online("ben", "phone"), w.online("leo", "phone")
	ana.sendMany(ab, "k", 2) // 1 2
	w.leave(ab, "leo")       // 3
	leo.event(ab, 3)
	ana.sendMany(ab, "m", 3) // 4 5 6
	ben.ack(ab, 6)
	ben.want("readed", F{"t": "read", "conv": ab, "seq": 6})
	ana.await("the receipt", 0, isReceipt(ab, w.user("ben"), 6, 6))
	leo.none("a receipt beyond leo's head", 0, func(f rawclient.Frame) bool {
		return f.T() == "receipt" && (f.Int("delivered") > 3 || f.Int("read") > 3)
	})
}

func TestTyping(t *testing.T) {
	w := onShared(t)
	ab := w.conv("ab", "ana", "ben", "leo")
	ana, ben, leo := w.online("ana", "phone"), w.online("ben", "phone"), w.online("leo", "phone")
	zoe := w.online("zoe", "phone")
	if err := ana.JSON(F{"t": "typing", "conv": ab}); err != nil {
		t.Fatal(err)
	}
	f := ben.await("typing", 0, isT("typing"))
	shaped(t, f.Object, typingShape)
	if f.Str("conv") != ab || f.Str("user") != w.user("ana") {
		t.Errorf("typing %s", f.Object)
	}
	w.leave(ab, "leo")
	leo.event(ab, 1)
	mark, leoMark := ben.Mark(), leo.Mark()
	for _, c := range []*client{leo, zoe} { // typing needs an open membership
		if err := c.JSON(F{"t": "typing", "conv": ab}); err != nil {
			t.Fatal(err)
		}
		c.alive()
	}
	ben.none("typing of one who is no member", mark, isT("typing"))
	if err := ana.JSON(F{"t": "typing", "conv": ab}); err != nil {
		t.Fatal(err)
	}
	ben.await("typing", mark, isT("typing"))
	leo.none("typing for one who has left", leoMark, isT("typing"))
	zoe.none("typing for a stranger", 0, isT("typing"))
	if _, head := ana.log(ab, 0); head != 1 { // only the leave
		t.Errorf("head %d: typing was stored", head)
	}
}
