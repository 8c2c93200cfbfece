//go:build !race

package client_test

func crowd(n int) int { return n }
