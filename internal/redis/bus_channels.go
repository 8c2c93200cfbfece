package redis

import (
	"strconv"

	"github.com/redis/rueidis"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/bus"
)

// A conversation's messages go through one of so many channels. The channels of a
// group are in one slot of a Cluster, so that one connection can listen to them.
// Both numbers are the same for all nodes of a deployment, of whatever version.
const (
	groups   = 16
	perGroup = 256
	channels = groups * perGroup
)

// tags put each group into a slot of its own, spread evenly over all slots.
var tags = [groups]string{"10", "3", "61", "43", "11", "2", "60", "42", "12", "1", "63", "41", "13", "0", "62", "40"}

// channel is the number of a channel of conversations.
type channel uint16

// everyone stands for the channel that every node listens to.
const everyone channel = channels

func (c channel) group() int { return int(c) / perGroup % groups }

// channelOf is where a message goes.
func channelOf(m *bus.Message) channel {
	if m.Conv == "" || m.Everyone {
		return everyone
	}
	return channelOfConv(m.Conv)
}

// channelOfConv spreads conversations over channels (FNV-1a, and then its bits mixed,
// as the high ones of short texts hardly differ).
func channelOfConv(conv impart.ConvID) channel {
	h := uint64(14695981039346656037)
	for i := range len(conv) {
		h = (h ^ uint64(conv[i])) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	return channel((h ^ h>>33) % channels)
}

// names are what channels are called in Redis. Channels are no keys: they are the same
// in all databases of a server, so the database is part of their names.
type names struct{ prefix string }

func namesIn(opts *rueidis.ClientOption) names {
	return names{"im:" + strconv.Itoa(opts.SelectDB) + ":"}
}

func (n names) of(c channel) string {
	if c == everyone {
		return n.in(0) + "everyone"
	}
	return n.in(c.group()) + strconv.Itoa(int(c)%perGroup)
}

// own is the channel on which a node hears itself in a group.
func (n names) own(group int, origin string) string { return n.in(group) + "node:" + origin }

func (n names) in(group int) string { return n.prefix + "{" + tags[group] + "}:" }
