package redis

import (
	_ "embed" // the scripts
	"strings"

	"github.com/redis/rueidis"
)

//go:embed lua/flows.lua
var flowsText string

//go:embed lua/change.lua
var changeText string

//go:embed lua/due.lua
var dueText string

//go:embed lua/lease.lua
var leaseText string

//go:embed lua/release.lua
var releaseText string

//go:embed lua/inherit.lua
var inheritText string

//go:embed lua/beat.lua
var beatText string

//go:embed lua/forget.lua
var forgetText string

// The scripts. Redis keeps them by their hash, and is sent the text when it has none.
var (
	changeScript  = rueidis.NewLuaScript(flowsText + changeText)
	dueScript     = rueidis.NewLuaScript(flowsText + dueText)
	leaseScript   = rueidis.NewLuaScript(flowsText + leaseText)
	releaseScript = rueidis.NewLuaScript(flowsText + releaseText)
	inheritScript = rueidis.NewLuaScript(flowsText + inheritText)
	beatScript    = rueidis.NewLuaScript(beatText)
	forgetScript  = rueidis.NewLuaScript(forgetText)
)

// isLost reports whether a script found that the set is another's.
func isLost(err error) bool {
	reply, is := rueidis.IsRedisErr(err)
	return is && strings.HasPrefix(reply.Error(), "LOST ")
}
