// Package random runs drawn schedules against the real server: sends, resends,
// memberships, recalls, reinstalls, lost pushes, cut links and kill -9 at any
// moment, and checks the whole history at the end. A failing seed is printed
// and draws the same schedule again:
//
//	RANDOM_SEED=17 RANDOM_RUNS=1 go test -run TestSchedules ./test/random
package random
