// Package impartpb is what buf makes of proto/impart/v1 (make generate): the
// messages and services between a gateway and a logic node. Nothing in it is
// written by hand, and nothing but internal/rpc uses it.
package impartpb
