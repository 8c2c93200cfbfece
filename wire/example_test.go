package wire_test

import (
	"fmt"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/wire"
)

func ExampleDecode() {
	frame, rid, err := wire.Decode([]byte(`{"t":"send","rid":"r1","conv":"c-ab","cmid":"7f3c","body":"hi"}`))
	send := frame.(*wire.Send)
	fmt.Println(rid, err, send.Conv, send.CMID, send.Body)

	_, rid, err = wire.Decode([]byte(`{"t":"send","rid":"r2","conv":"c-ab","body":"hi"}`))
	fmt.Println(rid, err)
	// Output:
	// r1 <nil> c-ab 7f3c hi
	// r2 BAD_FRAME: cmid is missing or empty
}

func ExampleSent() {
	sent := impart.Sent{Conv: "c-ab", Seq: 7, MID: "mid-7", Epoch: 1, At: 1_790_000_000_000}
	fmt.Printf("%s\n", wire.Sent{RID: "r1", Sent: sent}.Append(nil))
	fmt.Printf("%s\n", wire.Sent{RID: "r1", Sent: sent}.AppendBody(nil))
	// Output:
	// {"t":"sent","rid":"r1","conv":"c-ab","seq":7,"mid":"mid-7","dup":false,"epoch":1,"at":1790000000000}
	// {"conv":"c-ab","seq":7,"mid":"mid-7","dup":false,"epoch":1,"at":1790000000000}
}

func ExampleDecodeServer() {
	frame, err := wire.DecodeServer([]byte(`{"t":"hint","conv":"c-ab","head":8,"epoch":1,"why":"sweep"}`))
	if hint, ok := frame.(*wire.Hint); ok {
		fmt.Println(hint.Conv, hint.Head, err)
	}
	// Output: c-ab 8 <nil>
}
