// Package crowd runs many applications on the Go SDK, each behind a link of its own,
// against the real binary with gateways and logic nodes apart, and takes their gateway
// away: what then comes back, and when, is looked at from both sides. IMPART_STORE and
// IMPART_REDIS name what it stands on, IMPART_CROWD how many there are. With -short
// nothing runs.
package crowd
