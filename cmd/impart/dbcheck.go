package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/impart-im/impart/internal/bus/pgbus"
	"github.com/impart-im/impart/internal/store"
	"github.com/impart-im/impart/internal/store/sqlstore"
)

// databaseFindings looks at a database and at the bus through it.
func databaseFindings(ctx context.Context, c *config) []finding {
	shown := shownStore(c.Store)
	found, err := sqlstore.Inspect(ctx, c.Store)
	empty := errors.Is(err, os.ErrNotExist) && found.Release != ""
	if err != nil && !empty {
		return []finding{{Check: "store", Verdict: fail, Found: databaseError("IM_STORE (--store)", c.Store, err).Error(), Advice: startAdvice(err)}}
	}
	findings := []finding{
		{Check: "store", Verdict: good, Found: shown + ", " + engineName(c.Store) + found.Release},
		wayFinding(c.Store),
	}
	if empty {
		findings = append(findings, finding{Check: "schema", Verdict: good, Found: "none yet; the first start makes it"})
	} else {
		findings = append(findings, schemaFinding(found.Schema, found.Known), finding{Check: "epoch", Verdict: good, Found: fmt.Sprint(found.Epoch)})
	}
	findings = append(findings, settingFindings(vouched(found.Settings, c.Replication))...)
	findings = append(findings, standbyFindings(&found.Standby)...)
	standbys := found.Connected
	if onMySQL(c.Store) {
		standbys = -1
	}
	findings = append(findings, failoverFinding(found.Settings, c.Replication, standbys))
	findings = append(findings, offsetFinding(&found.Vitals))
	wakes := busFinding(ctx, c)
	if wakes.Verdict == fail && stuck(&found.Standby) {
		wakes.Found, wakes.Advice = "wake-ups wait behind the commits that wait for a standby", "see standbys"
	}
	return append(findings, wakes)
}

// engineName is what goes before the release of a server.
func engineName(address string) string {
	if onMySQL(address) {
		return "" // the release says which of them it is
	}
	return "PostgreSQL "
}

// wayFinding judges the way to the database.
func wayFinding(address string) finding {
	if !openWay(address) {
		return finding{Check: "way to the store", Verdict: good, Found: "on this machine, or verified TLS"}
	}
	verified := "sslmode=verify-full and sslrootcert=FILE"
	if onMySQL(address) {
		verified = "ssl-mode=VERIFY_IDENTITY and ssl-ca=FILE"
	}
	return finding{
		Check: "way to the store", Verdict: warn, Found: "over a network, and the database does not have to prove who it is",
		Advice: "add " + verified + " to the address, or be sure of the network: messages pass there in plain text",
	}
}

// startAdvice says what a server would make of a database that does not open.
func startAdvice(err error) string {
	if notUp(err) {
		return fmt.Sprintf("a server that is started now would wait for it, %.0f s at most", awaitDatabase.Seconds())
	}
	return "a server would not start"
}

// offsetFinding judges how far this machine's clock is ahead of the database's.
func offsetFinding(v *store.Vitals) finding {
	ahead, told := clockOffset(v)
	if !told {
		return finding{Check: "clock of the store", Verdict: warn, Found: fmt.Sprintf("not known: the database took %d ms to answer", v.Took.Milliseconds()),
			Advice: "look again when the database, the network or this machine is less busy"}
	}
	f := finding{Check: "clock of the store", Verdict: good, Found: fmt.Sprintf("this machine's is %+d ms from it", ahead.Milliseconds())}
	if ahead.Abs() > maxClockOffset {
		f.Verdict = warn
		f.Advice = "run a time service on both: times of messages are the store's, expiry of tokens is judged here"
	}
	return f
}

// busFinding opens the bus as a server would, and hears itself.
func busFinding(ctx context.Context, c *config) finding {
	if c.busKind() == "local" && onMySQL(c.Store) {
		return finding{Check: "bus", Verdict: warn, Found: "local: MySQL tells nobody what is new",
			Advice: "nothing to do for one process; several find out by their sweeps (IM_SWEEP_MS)"}
	}
	if c.busKind() == "redis" {
		return redisBusFinding(ctx, c)
	}
	if c.busKind() == "local" {
		return finding{
			Check: "bus", Verdict: warn, Found: "local: other processes of this store are not told what is new",
			Advice: "leave IM_BUS at auto unless this is the only process; the others find out by their sweeps",
		}
	}
	ctx, cancel := context.WithTimeout(ctx, busWithin)
	defer cancel()
	if c.role == roleGateway {
		// It has no other address to compare with.
	} else if err := sameDatabase(ctx, c); errors.Is(err, errElsewhere) {
		return finding{Check: "bus", Verdict: fail, Found: flat(err), Advice: "a server would not start"}
	}
	opened, err := pgbus.Open(ctx, pgbus.Config{DSN: c.listenStore(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		setting := "IM_LISTEN_STORE (--listen-store)"
		if c.ListenStore == "" {
			setting = "IM_STORE (--store), for LISTEN"
		}
		return finding{Check: "bus", Verdict: fail, Found: databaseError(setting, c.listenStore(), err).Error(), Advice: startAdvice(err)}
	}
	if err := errors.Join(opened.Health(), opened.Close()); err != nil {
		return finding{Check: "bus", Verdict: warn, Found: flat(err), Advice: "messages of other nodes come with the next sweep"}
	}
	return finding{Check: "bus", Verdict: good, Found: "LISTEN and NOTIFY at " + databaseHosts(c.listenStore()) + ": it hears itself"}
}

// sameDatabase is an error unless both addresses lead to one database: what the store
// tells in one would be listened for in another, and nobody would hear it.
func sameDatabase(ctx context.Context, c *config) error {
	if c.ListenStore == "" {
		return nil
	}
	var names [2]string
	for i, address := range []string{c.Store, c.ListenStore} {
		found, err := sqlstore.Inspect(ctx, address)
		if err != nil && found.Database == "" { // what else is wrong there shows when it is used
			return err
		}
		names[i] = found.Database
	}
	if names[0] != names[1] {
		return errElsewhere
	}
	return nil
}

var errElsewhere = errors.New("IM_LISTEN_STORE (--listen-store): it leads to another database than IM_STORE; it should be the same one, without the pooler")

// busWithin bounds the doctor's look at the bus.
const busWithin = 10 * time.Second

// vouched is settings, held against what the operator vouches for.
func vouched(settings []store.Setting, replication string) []store.Setting {
	if replication != "sync" {
		return settings
	}
	for i := range settings {
		if f := &settings[i]; ofStandbys(f) && (f.Value == "" || f.Value == "none") {
			f.Safe, f.Want = false, "the names of the standbys that a commit waits for"
			if f.Name == "replication" {
				f.Want = "semi-synchronous without a time-out of less than an hour and with wait_no_slave, or Galera"
			}
			f.Why = "IM_REPLICATION=sync vouches that a failover loses nothing, and no commit waits for a standby"
		}
	}
	return settings
}

// ofStandbys reports whether a setting says what a commit waits for besides its own
// server: as PostgreSQL names it, or as the store does of what MySQL has in several.
func ofStandbys(s *store.Setting) bool {
	return s.Name == "synchronous_standby_names" || s.Name == "replication"
}
