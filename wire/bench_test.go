package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/impart-im/impart"
)

// sendFrame is a send of about 300 bytes, as the SDKs make it.
var sendFrame = []byte(`{"t":"send","rid":"r-1024","conv":"c-ab12cd34","cmid":"0197f3c2-7b1e-7cc1-9d3e-5a4b3c2d1e0f","type":"text","epoch":1,` +
	`"body":"` + strings.Repeat("see you at ten. ", 10) + `"}`)

func BenchmarkDecodeSend(b *testing.B) {
	benchmarkDecode(b, sendFrame)
}

func BenchmarkDecodeAck(b *testing.B) {
	benchmarkDecode(b, []byte(`{"t":"ack","rid":"r-1025","conv":"c-ab12cd34","seq":123456,"n":9876,"epoch":1}`))
}

func BenchmarkDecodeAckBatch(b *testing.B) {
	items := make([]string, 100)
	for i := range items {
		items[i] = fmt.Sprintf(`{"conv":"c-ab12cd%02d","seq":%d}`, i, 1000+i)
	}
	benchmarkDecode(b, []byte(`{"t":"ack","rid":"r","n":1,"epoch":1,"acks":[`+strings.Join(items, ",")+`]}`))
}

func benchmarkDecode(b *testing.B, data []byte) {
	b.Helper()
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendEvent(b *testing.B) {
	f := Event{Epoch: 1, Event: &impart.Event{
		Conv: "c-ab12cd34", Seq: 1234, Kind: impart.KindMsg, MID: "0197f3c2-7b1e-7cc1-9d3e-5a4b3c2d1e0f", Sender: "u-ana",
		CMID: "0197f3c2-7b1e-7cc1-9d3e-5a4b3c2d1e0e", Type: "text", Body: strings.Repeat("see you at ten. ", 10), At: 1_790_000_000_000,
	}}
	benchmarkAppend(b, f)
}

func BenchmarkAppendSent(b *testing.B) {
	benchmarkAppend(b, Sent{RID: "r-1024", Sent: impart.Sent{
		Conv: "c-ab12cd34", Seq: 1234, MID: "0197f3c2-7b1e-7cc1-9d3e-5a4b3c2d1e0f", Epoch: 1, At: 1_790_000_000_000,
	}})
}

func benchmarkAppend(b *testing.B, frame ServerFrame) {
	b.Helper()
	dst := make([]byte, 0, 4096)
	b.SetBytes(int64(len(frame.Append(dst))))
	b.ReportAllocs()
	for b.Loop() {
		dst = frame.Append(dst[:0])
	}
}
