// Package bench measures the server as ratios within one run, for machines are
// shared and noisy: every figure stands beside a yardstick that was measured
// turn and turn about with it. Run one with
//
//	go test -run '^$' -bench T1Send -benchtime 1x ./test/bench
//
// Nothing here passes or fails by speed.
package bench
