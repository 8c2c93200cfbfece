package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestNoPasswordIsShown(t *testing.T) {
	for address, want := range map[string]string{
		"sqlite:impart-data/impart.db":                                           "sqlite:impart-data/impart.db",
		"postgres://im@db/im":                                                    "postgres://im@db/im",
		"postgres://im:hunter2@db:5432/im":                                       "postgres://im:xxxxx@db:5432/im",
		"postgres://im:hunter2@a:1,b:2/im":                                       "postgres://im:xxxxx@a:1,b:2/im",
		"postgres://im@db/im?password=hunter2&sslmode=allow":                     "postgres://im@db/im?password=xxxxx&sslmode=allow",
		"postgres://im:hun#hunter2@db/im":                                        "postgres://(hidden, as it is no address)",
		"rediss://:hunter2@r:1?addr=s:1&master_set=im&sentinel_password=hunter2": "rediss://:xxxxx@r:1?addr=s%3A1&master_set=im&sentinel_password=xxxxx",
		"mysql://im:hunter2@db/im":                                               "mysql://im:xxxxx@db/im",
		"postgres://im:%zzhunter2@db/im":                                         "postgres://(hidden, as it is no address)",
		"host=db password=hunter2":                                               "(hidden, as it is no address)",
		"postgres:hunter2":                                                       "(hidden, as it is no address)",
	} {
		if got := shownStore(address); got != want || strings.Contains(got, "hunter2") {
			t.Errorf("%s is shown as %s, want %s", address, got, want)
		}
	}
}

func TestTheWayToADatabaseIsJudged(t *testing.T) {
	for address, open := range map[string]bool{
		"postgres://im@127.0.0.1:5432/im":                           false,
		"postgres://im@localhost/im":                                false,
		"postgres://im@[::1]:5432/im":                               false,
		"postgres://im@/im?host=/run/postgresql":                    false,
		"postgres://im@db/im":                                       true,
		"postgres://im@db/im?sslmode=require":                       true,
		"postgres://im@db/im?sslmode=verify-full":                   false,
		"postgres://im@127.0.0.1,10.0.0.7:5432/im":                  true,
		"postgres://im@10.0.0.7/im?sslmode=verify-ca&sslrootcert=x": false,
	} {
		if got := openWay(address); got != open {
			t.Errorf("%s: %v, want %v", address, got, open)
		}
	}
}

// said is an error with a database's code.
type said string

func (s said) Error() string    { return "the database said " + string(s) }
func (s said) SQLState() string { return string(s) }

func TestWhatPassesIsWaitedFor(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"nobody listens":     {fmt.Errorf("connect: %w", refused), true},
		"no such host":       {&net.DNSError{Err: "no such host"}, true},
		"no socket":          {fmt.Errorf("dial: %w", os.ErrNotExist), true},
		"starting up":        {said("57P03"), true},
		"too many clients":   {said("53300"), true},
		"a pooler":           {said("08P01"), false},
		"a wrong password":   {said("28P01"), false},
		"no such database":   {said("3D000"), false},
		"no right to create": {said("42501"), false},
		"called off":         {context.Canceled, false},
		"anything else":      {errors.New("the schema is newer"), false},
		"nothing":            {nil, false},
	} {
		if got := notUp(c.err); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if c.err == nil {
			continue
		}
		if line := databaseError("IM_STORE", "postgres://im:hunter2@db/im", c.err).Error(); strings.ContainsAny(line, "\n") || strings.Contains(line, "hunter2") {
			t.Errorf("%s is told as %q", name, line)
		}
	}
}

func TestAStartWaitsForItsDatabase(t *testing.T) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	open := func(after time.Duration, finally error) (time.Duration, error) {
		began := time.Now()
		err := awaiting(context.Background(), log, "postgres://im@db/im", func(context.Context) error {
			if time.Since(began) < after {
				return said("57P03")
			}
			return finally
		})
		return time.Since(began), err
	}
	synctest.Test(t, func(t *testing.T) {
		if took, err := open(40*time.Second, nil); err != nil || took < 40*time.Second || took > 41*time.Second {
			t.Errorf("%v after %v, want success after 40 s", err, took)
		}
		if took, err := open(time.Hour, nil); err == nil || took > awaitDatabase+time.Second {
			t.Errorf("%v after %v, want the last error after %v", err, took, awaitDatabase)
		}
		if took, err := open(0, said("28P01")); err == nil || took > 0 {
			t.Errorf("%v after %v, want an error at once", err, took)
		}
	})
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("enough"))
	if err := awaiting(ctx, log, "postgres://im@db/im", func(context.Context) error { return said("57P03") }); err == nil || err.Error() != "enough" {
		t.Errorf("called off: %v", err)
	}
}
