package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/impart-im/impart"
)

// How long a start waits for a database that is not up, and how often it tries and
// says so. Whoever starts everything at once, a composition of containers or a
// machine that boots, need not put it in order; what stays wrong is told soon.
const (
	awaitDatabase = time.Minute
	awaitEvery    = 500 * time.Millisecond
	awaitTold     = 10 * time.Second
)

// awaiting opens something of a database, and again as long as the database is not
// up, for [awaitDatabase] at most.
func awaiting(ctx context.Context, log *slog.Logger, address string, open func(context.Context) error) error {
	began := time.Now()
	var told time.Time
	for {
		err := open(ctx)
		if err == nil || !notUp(err) || time.Since(began) >= awaitDatabase {
			return err
		}
		if told.IsZero() || time.Since(told) >= awaitTold {
			told = time.Now()
			log.Warn("the database is not up; trying again", "database", databaseHosts(address), "err", flat(err),
				"until", began.Add(awaitDatabase).Format(time.TimeOnly))
		}
		select {
		case <-time.After(awaitEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// judged opens what reads the store, and again while a failover of the database has
// not been judged, for [awaitDatabase] at most. The rules run by then and judge: where
// every process was down at the failover, this one may be the first that can.
func judged[T any](ctx context.Context, log *slog.Logger, open func() (T, error)) (T, error) {
	began, told := time.Now(), false
	for {
		opened, err := open()
		if err == nil || impart.CodeOf(err) != impart.Unavailable || time.Since(began) >= awaitDatabase {
			return opened, err
		}
		if !told {
			told = true
			log.Warn("the store does not answer yet; trying again", "err", err, "until", began.Add(awaitDatabase).Format(time.TimeOnly))
		}
		select {
		case <-time.After(awaitEvery):
		case <-ctx.Done():
			return opened, context.Cause(ctx)
		}
	}
}

// flat is what an error says, on one line: an address with several hosts gets a
// line for each.
func flat(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// sqlState is the code by which a database says what is wrong, "" from elsewhere.
func sqlState(err error) string {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		return coded.SQLState()
	}
	return ""
}

// serverCode is the number by which a MySQL server says what is wrong, 0 from elsewhere.
func serverCode(err error) int {
	var coded interface{ ServerCode() int }
	if errors.As(err, &coded) {
		return coded.ServerCode()
	}
	return 0
}

// passingCodes are those of a MySQL server that stops, has no room for one more
// session, or is out of its cluster.
var passingCodes = []int{1040, 1047, 1053, 1203, 1226}

// passing are the codes of a database that starts, recovers, stops, has no room for
// one more session, or lost the connection.
var passing = []string{"57P01", "57P02", "57P03", "53300", "08000", "08001", "08003", "08004", "08006"}

// notUp reports whether an error is one that passes when a database has come up: it
// cannot be reached, it starts or recovers, it has no room for one more session, or
// it is still a standby, or it waits for one.
func notUp(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if errors.Is(err, errStandby) {
		return true
	}
	switch state := sqlState(err); {
	case slices.Contains(passing, state):
		return true
	case state != "":
		return false
	}
	if code := serverCode(err); code != 0 {
		return slices.Contains(passingCodes, code)
	}
	var network net.Error
	var unknown *net.DNSError
	return errors.As(err, &network) || errors.As(err, &unknown) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, os.ErrNotExist) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), "invalid connection") || strings.Contains(err.Error(), "server is read only") ||
		strings.Contains(err.Error(), "read only connection") || strings.Contains(err.Error(), "server closed the connection")
}

// databaseError says in one line what to do about a database that does not open.
func databaseError(setting, address string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	hosts := databaseHosts(address)
	said := flat(err)
	switch state := sqlState(err); {
	case errors.Is(err, errStandby):
		return fmt.Errorf("%s: %s", setting, said)
	case state == "28P01" || state == "28000":
		return fmt.Errorf("%s: %s does not let the role in: check the role, its password and pg_hba.conf (%s)", setting, hosts, said)
	case state == "3D000":
		return fmt.Errorf("%s: %s has no such database: make it with CREATE DATABASE … OWNER the role of the address (%s)", setting, hosts, said)
	case state == "42501":
		return fmt.Errorf("%s: the role may not make its tables: let it own the database, or GRANT CREATE, USAGE ON SCHEMA public to it (%s)", setting, said)
	case state == "08P01" && strings.Contains(said, "startup parameter"):
		return fmt.Errorf("%s: a pooler stands at %s, which keeps nothing for a session: set IM_LISTEN_STORE to the database's own address, and leave IM_STORE at the pooler (%s)", setting, hosts, said)
	case state == "" && strings.Contains(said, "cannot parse"):
		return usagef("%s: the address cannot be read; it should be postgres://ROLE:PASSWORD@HOST:PORT/DATABASE", setting)
	case serverCode(err) == 1045:
		return fmt.Errorf("%s: %s does not let the user in: check the user, its password and the hosts it may come from (%s)", setting, hosts, said)
	case serverCode(err) == 1049:
		return fmt.Errorf("%s: %s has no such database: make it with CREATE DATABASE (%s)", setting, hosts, said)
	case serverCode(err) == 1044 || serverCode(err) == 1142:
		return fmt.Errorf("%s: the user may not make its tables: GRANT ALL ON the database to it (%s)", setting, said)
	case strings.HasPrefix(said, "store: the address"):
		return usagef("%s: %s", setting, strings.TrimPrefix(said, "store: "))
	case notUp(err):
		return fmt.Errorf("%s: %s does not answer: is the database up, and does the address lead to it? (%s)", setting, hosts, said)
	}
	return fmt.Errorf("%s: the database at %s does not open (%s)", setting, hosts, said)
}
