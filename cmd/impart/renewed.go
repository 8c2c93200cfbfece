package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// filesCheck is how often files are looked at, at most.
const filesCheck = 30 * time.Second

// renewed is what some files hold, read again once they have changed, so that it needs
// no restart when they are renewed.
type renewed[T any] struct {
	what  string // for the log
	files []string
	load  func(files []string) (T, error)
	log   *slog.Logger

	mu      sync.Mutex // guards what follows
	value   T
	changed []time.Time // of each file
	checked time.Time
}

// renewedFrom reads the files for the first time.
func renewedFrom[T any](what string, load func([]string) (T, error), log *slog.Logger, files ...string) (*renewed[T], error) {
	r := &renewed[T]{what: what, files: files, load: load, log: log}
	if err := r.read(r.times()); err != nil {
		return nil, err
	}
	return r, nil
}

// read loads the files, which changed at these times. The caller holds mu, or is the
// only one.
func (r *renewed[T]) read(changed []time.Time) error {
	value, err := r.load(r.files)
	if err != nil {
		return err
	}
	r.value, r.changed, r.checked = value, changed, time.Now()
	return nil
}

// times are when the files changed; the zero time for one that is not there.
func (r *renewed[T]) times() []time.Time {
	times := make([]time.Time, len(r.files))
	for i, name := range r.files {
		if info, err := os.Stat(name); err == nil {
			times[i] = info.ModTime()
		}
	}
	return times
}

// get is what the files hold, as of [filesCheck] ago at the latest.
func (r *renewed[T]) get() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.checked) < filesCheck {
		return r.value
	}
	r.checked = time.Now()
	changed := r.times()
	if slices.EqualFunc(changed, r.changed, time.Time.Equal) {
		return r.value
	}
	if err := r.read(changed); err != nil {
		// What was there goes on: a renewal may be half written.
		r.log.Error("the changed "+r.what+" cannot be read; the old one stays", "error", err)
	} else {
		r.log.Info(r.what+" read again", "file", r.files[0])
	}
	return r.value
}

// renewedPair is a certificate with its key.
func renewedPair(certFile, keyFile string, log *slog.Logger) (*renewed[*tls.Certificate], error) {
	return renewedFrom("certificate", func(files []string) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(files[0], files[1])
		return &pair, err
	}, log, certFile, keyFile)
}

// renewedAuthorities are certificates of authorities.
func renewedAuthorities(file string, log *slog.Logger) (*renewed[*x509.CertPool], error) {
	return renewedFrom("list of authorities", func(files []string) (*x509.CertPool, error) {
		text, err := os.ReadFile(files[0])
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s holds no certificate", files[0])
		}
		return pool, nil
	}, log, file)
}
