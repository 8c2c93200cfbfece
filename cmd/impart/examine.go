package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The least free room on the disk of the store, in bytes: below the first the
// doctor warns, below the second the next commit may fail.
const (
	fewBytes   = 1 << 30
	noBytes    = 64 << 20
	oldestYear = 2026 // no clock that is right shows an earlier year
)

// examine makes every check of the doctor.
func examine(ctx context.Context, l *loaded) diagnosis {
	findings := []finding{
		{Check: "version", Verdict: good, Found: buildInfo().String() + ", " + buildInfo().Go},
		configured(l),
		clockFinding(time.Now(), clockSynchronised()),
	}
	if l.config.role == roleGateway {
		findings = append(findings, fileLimit(l.config.MaxConns))
		findings = append(findings, gatewayFindings(ctx, l.config)...)
		return diagnose(append(findings, redisFindings(ctx, l.config)...))
	}
	if !onServer(l.config.Store) {
		folder := existing(filepath.Dir(storePath(l.config.Store)))
		findings = append(findings, writable(folder))
		findings = append(findings, diskFindings(folder)...)
	}
	findings = append(findings, fileLimit(l.config.MaxConns))
	if l.config.role == roleLogic {
		findings = append(findings, certificateFindings(l.config, time.Now())...)
	}
	findings = append(findings, storeFindings(ctx, l.config)...)
	return diagnose(append(findings, redisFindings(ctx, l.config)...))
}

// storePath is the path in sqlite:PATH.
func storePath(dsn string) string { return strings.TrimPrefix(dsn, "sqlite:") }

// existing is folder, or the nearest folder above it that is there: the others
// are made when a server starts.
func existing(folder string) string {
	for {
		if info, err := os.Stat(folder); err == nil && info.IsDir() {
			return folder
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return folder
		}
		folder = parent
	}
}

func configured(l *loaded) finding {
	f := finding{Check: "settings", Verdict: good, Found: "valid"}
	if l.fileName != "" {
		f.Found += ", with " + l.fileName
	}
	switch {
	case l.config.AllowUnsafe:
		f.Verdict, f.Found = warn, "IM_ALLOW_UNSAFE_DURABILITY is on"
		f.Advice = "a store that can lose sent messages would not stop the server; unset it"
	case len(l.unknown) > 0:
		f.Verdict, f.Found, f.Advice = warn, "unknown variables", unknownNote(l.unknown[0])
	case l.config.Auth.devLogin() && l.config.role != roleLogic:
		f.Verdict, f.Found = warn, "dev login: anybody on this machine may sign in as anybody"
		f.Advice = "set IM_AUTH_HMAC_SECRET, IM_AUTH_PUBLIC_KEY or IM_AUTH_JWKS_URL before real use"
	}
	return f
}

// clockFinding judges the wall clock. Order and safety do not rest on it, but
// times of messages, token expiry, retention and raised epochs do.
func clockFinding(now time.Time, synced syncState) finding {
	f := finding{Check: "clock", Verdict: good, Found: now.Format(time.RFC3339)}
	switch {
	case now.Year() < oldestYear:
		f.Verdict = fail
		f.Advice = "this is in the past: tokens, retention and epochs go wrong; set the clock and run a time service"
	case synced == clockFree:
		f.Verdict = warn
		f.Found += ", not kept by a time service"
		f.Advice = "run chrony or systemd-timesyncd, so that times of messages and expiry of tokens are right"
	case synced == clockKept:
		f.Found += ", kept by a time service"
	}
	return f
}

// writable writes, syncs and removes a small file, as a commit would.
func writable(folder string) finding {
	err := probe(folder)
	return judge("folder", folder+" can be written and synced", err,
		"the store lives there: give the user of the server the right to write, or set IM_STORE elsewhere")
}

func probe(folder string) (err error) {
	f, err := os.CreateTemp(folder, ".impart-doctor-*")
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
		if e := os.Remove(f.Name()); err == nil {
			err = e
		}
	}()
	if _, err := f.Write(make([]byte, 4096)); err != nil {
		return err
	}
	return f.Sync()
}

// diskFindings judges the file system of the store.
func diskFindings(folder string) []finding {
	d, err := diskOf(folder)
	if err != nil {
		return []finding{{Check: "disk", Verdict: warn, Found: "unknown: " + err.Error(), Advice: "look yourself that it is a local disk with room"}}
	}
	return []finding{kindFinding(d.kind), roomFinding(d.free)}
}

func kindFinding(kind string) finding {
	f := finding{Check: "file system", Verdict: good, Found: kind}
	switch kind {
	case "tmpfs", "ramfs":
		f.Verdict, f.Advice = fail, "this is memory: a power cut loses every message; set IM_STORE to a path on a disk"
	case "nfs", "cifs", "smb2", "9p", "afs", "ceph":
		f.Verdict, f.Advice = fail, "locks and syncs of SQLite cannot be relied on over a network; set IM_STORE to a path on a local disk"
	case "fuse", "overlay":
		f.Verdict, f.Advice = warn, "what a sync means here depends on what is underneath, and a container's own layer goes with it; a mounted volume is safer"
	}
	return f
}

func roomFinding(free uint64) finding {
	f := finding{Check: "free room", Verdict: good, Found: fmt.Sprintf("%.1f GiB", float64(free)/(1<<30))}
	switch {
	case free < noBytes:
		f.Verdict, f.Advice = fail, "a commit may fail at any moment; make room"
	case free < fewBytes:
		f.Verdict, f.Advice = warn, "make room, or set IM_RETENTION, before commits begin to fail"
	}
	return f
}

func fileLimit(maxConns int) finding {
	limit, err := descriptorLimit()
	if err != nil {
		return finding{Check: "descriptors", Verdict: warn, Found: "unknown: " + err.Error()}
	}
	// What a server would take, worked out as it does.
	conns, _, err := connectionLimits(0)
	if err != nil {
		return judge("descriptors", "", err, "a server would not start")
	}
	f := finding{Check: "descriptors", Verdict: good, Found: fmt.Sprintf("%d, so at most %d connections", limit, conns)}
	if _, _, err := connectionLimits(maxConns); err != nil {
		f.Verdict = fail
		f.Advice = fmt.Sprintf("IM_MAX_CONNS is %d: raise the hard limit of open files (ulimit -Hn, LimitNOFILE) or lower it", maxConns)
	} else if limit < 4096 {
		f.Verdict, f.Advice = warn, "raise the hard limit of open files (ulimit -Hn, LimitNOFILE) for more connections"
	}
	return f
}

// reserved descriptors are for the store, its readers, logs and the rest.
const reserved = 128

// connectionRoom is how many connections a limit of descriptors leaves room for.
func connectionRoom(limit int) int { return max(limit-reserved, limit/2) }
