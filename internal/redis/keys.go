package redis

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/pending"
)

// gatewaysKey holds every gateway with the time at which it last told that it lives.
const gatewaysKey = "ack:gateways"

// setKeys are the keys of a gateway's set, as the scripts get them. In a Cluster all
// of them are in the slot of the first: what a key has between its first braces is
// what counts, or else the whole key.
type setKeys []string

func keysOf(gateway string) setKeys {
	set := "ack:pending:" + braceless.Replace(gateway)
	return setKeys{set, "{" + set + "}:flows", "{" + set + "}:lease", "{" + set + "}:rival"}
}

// braceless replaces the two characters by which keys would fall into other slots.
var braceless = strings.NewReplacer("{", "(", "}", ")")

// member is a flow as the set has it: a text that never changes while the flow is
// there, so that an acknowledgement finds it. Names are seed 002's where it has them.
type member struct {
	User   impart.UserID   `json:"uid"`
	Device impart.DeviceID `json:"device"`
	Conn   uint64          `json:"conn_id"`
	Conv   impart.ConvID   `json:"conv_id"`
}

func memberOf(key pending.Key) string {
	raw, _ := json.Marshal(member{key.User, key.Device, key.Conn, key.Conv}) // cannot fail
	return string(raw)
}

func ladderText(ladder pending.Ladder) string {
	var text []byte
	for i, wait := range ladder {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, wait.Milliseconds(), 10)
	}
	return string(text)
}

// width is how many values a script gives for a flow.
const width = 4

// parseFlows reads what a script gave: member, seq, attempts and ladder of each flow.
// A flow that cannot be read is left out.
func parseFlows(values []string) []pending.Entry {
	entries := make([]pending.Entry, 0, len(values)/width)
	for ; len(values) >= width; values = values[width:] {
		if e, err := parseFlow(values[0], values[1], values[2], values[3]); err == nil {
			entries = append(entries, e)
		}
	}
	return entries
}

func parseFlow(name, seq, attempts, ladder string) (e pending.Entry, err error) {
	var m member
	if err := json.Unmarshal([]byte(name), &m); err != nil {
		return e, err
	}
	e.Key = pending.Key{User: m.User, Device: m.Device, Conv: m.Conv, Conn: m.Conn}
	n, err := strconv.ParseInt(seq, 10, 64)
	if err != nil {
		return e, err
	}
	e.Seq = impart.Seq(n)
	if e.Attempts, err = strconv.Atoi(attempts); err != nil {
		return e, err
	}
	waits := strings.Split(ladder, ",")
	if len(waits) != len(e.Ladder) {
		return e, fmt.Errorf("a ladder of %d waits", len(waits))
	}
	for i, text := range waits {
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return e, err
		}
		e.Ladder[i] = time.Duration(ms) * time.Millisecond
	}
	return e, nil
}
