package rpc

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/impart-im/impart"
)

// words are texts that a border may spoil.
var words = []string{"", "a", "u-ana", "\x00", "é", "\xff\xfe", "\ud7ff", "a:b", " ", "长消息", "trailing "}

// fill draws a value of any type that the ports use.
func fill(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(rapid.SampledFrom(words).Draw(t, "text"))
	case reflect.Int, reflect.Int64:
		if v.Type() == reflect.TypeFor[time.Duration]() {
			v.SetInt(int64(rapid.SampledFrom([]time.Duration{0, 1, time.Millisecond + 1, time.Hour}).Draw(t, "duration")))
			return
		}
		v.SetInt(rapid.SampledFrom([]int64{0, 1, -1, 7, impart.MaxNumber, 1<<63 - 1, -1 << 63}).Draw(t, "number"))
	case reflect.Uint8:
		v.SetUint(uint64(rapid.Byte().Draw(t, "byte")))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "set") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem())
		}
	case reflect.Slice:
		if n := rapid.IntRange(-1, 3).Draw(t, "length"); n >= 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				fill(t, v.Index(i))
			}
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(t, key)
			fill(t, value)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Interface: // only errors
		if rapid.Bool().Draw(t, "fails") {
			v.Set(reflect.ValueOf(drawError(t)))
		}
	default:
		t.Fatalf("the ports have a %v, which this test cannot draw", v.Type())
	}
}

func drawError(t *rapid.T) *impart.Error {
	e := &impart.Error{}
	fill(t, reflect.ValueOf(e).Elem())
	e.Code, e.Cause = rapid.SampledFrom(impart.Codes()).Draw(t, "code"), nil
	return e
}

// same compares what went in with what came out: byte for byte, but for empty lists,
// which nobody tells from none.
var same = cmp.Options{
	cmp.FilterPath(func(p cmp.Path) bool { return p.Last().Type() != reflect.TypeFor[[]byte]() }, cmpopts.EquateEmpty()),
	// A hello grows older on its way.
	cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Age" }, cmp.Comparer(func(near, far time.Duration) bool {
		return far >= near && far < near+10*time.Second
	})),
}

// TestEveryCallArrivesByteForByte carries every method of both ports over the hop,
// with drawn arguments and results: what a new method or field loses shows here.
func TestEveryCallArrivesByteForByte(t *testing.T) {
	rules := &fake{}
	far := pair(t, rules)
	for _, port := range []reflect.Type{reflect.TypeFor[impart.Logic](), reflect.TypeFor[impart.Admin]()} {
		for i := range port.NumMethod() {
			method := port.Method(i)
			switch method.Name {
			case "Range", "Audience", "Written":
				continue // audiences are cached: stories of their own
			}
			t.Run(method.Name, func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) { carry(t, rules, far, method) })
			})
		}
	}
}

func carry(t *rapid.T, rules *fake, far *Client, method reflect.Method) {
	args := make([]reflect.Value, method.Type.NumIn())
	args[0] = reflect.ValueOf(context.Background())
	var wantAsked []any
	empty := false
	for i := 1; i < len(args); i++ {
		args[i] = reflect.New(method.Type.In(i)).Elem()
		fill(t, args[i])
		if sends, ok := args[i].Interface().([]impart.Send); ok {
			for k := range sends { // of one conversation: those of several are several calls at the node
				sends[k].Conv = sends[0].Conv
			}
		}
		wantAsked = append(wantAsked, args[i].Interface())
		empty = empty || args[i].Kind() == reflect.Slice && args[i].Len() == 0
	}
	rules.answers, rules.asked = drawAnswers(t, method, args), nil
	got := reflect.ValueOf(far).MethodByName(method.Name).Call(args)
	if empty {
		return // nothing to ask
	}
	if diff := cmp.Diff(wantAsked, rules.asked, same); diff != "" {
		t.Fatalf("asked (-near +far):\n%s", diff)
	}
	for i := range got {
		if diff := cmp.Diff(rules.answers[i], got[i].Interface(), same); diff != "" {
			t.Fatalf("result %d (-near +far):\n%s", i, diff)
		}
	}
}

// drawAnswers draws results: with an error the others are zero, and lists have one
// entry for each that was asked for.
func drawAnswers(t *rapid.T, method reflect.Method, args []reflect.Value) []any {
	out := make([]reflect.Value, method.Type.NumOut())
	failed := false
	for i := range out {
		out[i] = reflect.New(method.Type.Out(i)).Elem()
	}
	for i := len(out) - 1; i >= 0; i-- {
		if failed {
			continue
		}
		fill(t, out[i])
		failed = out[i].Kind() == reflect.Interface && !out[i].IsNil()
	}
	asked := args[1:]
	switch method.Name {
	case "Send", "Standings", "Lags":
		resize(t, out[0], asked[0].Len(), failed)
	case "Ack":
		resize(t, out[0], asked[0].FieldByName("Items").Len(), failed)
	}
	answers := make([]any, len(out))
	for i := range out {
		answers[i] = out[i].Interface()
	}
	return answers
}

func resize(t *rapid.T, list reflect.Value, n int, failed bool) {
	if failed {
		return
	}
	list.Set(reflect.MakeSlice(list.Type(), n, n))
	for i := range n {
		fill(t, list.Index(i))
	}
}
