package main

import (
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/impart-im/impart/internal/pending"
	"github.com/impart-im/impart/internal/rpc"
)

// reader reads the text of one setting into its field of the config.
type reader struct {
	kind string // what flags and tables call it: "ms", "duration", "choice" …
	want string // completes "it should be …"
	set  func(text string) error
}

const day = 24 * time.Hour

// errWrong is a value that does not fit; what would fit is in reader.want.
var errWrong = fmt.Errorf("wrong value")

func text(field *string, want string) reader {
	return reader{"text", want, func(s string) error {
		*field = s
		return nil
	}}
}

func boolean(field *bool) reader {
	return reader{"bool", "true or false", func(s string) error {
		v, err := strconv.ParseBool(s)
		if err != nil {
			return errWrong
		}
		*field = v
		return nil
	}}
}

func number(field *int, low, high int) reader {
	return reader{"number", fmt.Sprintf("a whole number from %d to %d", low, high), func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < low || n > high {
			return errWrong
		}
		*field = n
		return nil
	}}
}

func millis(field *time.Duration, low, high time.Duration) reader {
	want := fmt.Sprintf("whole milliseconds from %d to %d", low.Milliseconds(), high.Milliseconds())
	return reader{"ms", want, func(s string) error {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < low.Milliseconds() || n > high.Milliseconds() {
			return errWrong
		}
		*field = time.Duration(n) * time.Millisecond
		return nil
	}}
}

func duration(field *time.Duration, low, high time.Duration) reader {
	return reader{"duration", "a time such as 90m, 24h or 30d, or 0", func(s string) error {
		d, err := parseDuration(s)
		if err != nil || d < low || d > high {
			return errWrong
		}
		*field = d
		return nil
	}}
}

// parseDuration is time.ParseDuration with days in front: 30d, 1d12h.
func parseDuration(s string) (time.Duration, error) {
	days, rest, found := strings.Cut(s, "d")
	if !found {
		return time.ParseDuration(s)
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if err != nil {
		return 0, errWrong
	}
	d := time.Duration(n) * day
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || more < 0 {
		return 0, errWrong
	}
	return d + more, nil
}

func ladder(field *pending.Ladder) reader {
	want := fmt.Sprintf("%d waits in milliseconds by comma, each from 10 to 600000 and none shorter than the one before", pending.Attempts)
	return reader{"list", want, func(s string) error {
		parts := strings.Split(s, ",")
		if len(parts) != pending.Attempts {
			return errWrong
		}
		var steps pending.Ladder
		for i, part := range parts {
			wait := millis(&steps[i], 10*time.Millisecond, 10*time.Minute)
			if err := wait.set(strings.TrimSpace(part)); err != nil {
				return err
			}
			if i > 0 && steps[i] < steps[i-1] {
				return errWrong
			}
		}
		*field = steps
		return nil
	}}
}

func list(field *[]string, check func(string) error) reader {
	return reader{"list", "origins such as https://chat.example.com, by comma", func(s string) error {
		var items []string
		for item := range strings.SplitSeq(s, ",") {
			item = strings.TrimSpace(item)
			if item == "" {
				continue
			}
			if err := check(item); err != nil {
				return err
			}
			items = append(items, item)
		}
		*field = items
		return nil
	}}
}

func checkOrigin(s string) error {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.Scheme+"://"+u.Host != s {
		return errWrong
	}
	return nil
}

// logicNodes reads addresses of logic nodes.
func logicNodes(field *[]string) reader {
	r := list(field, rpc.CheckTarget)
	r.want = "HOST:PORT by comma, or dns:///NAME:PORT"
	return r
}

func choice(field *string, options ...string) reader {
	return reader{"choice", strings.Join(options[:len(options)-1], ", ") + " or " + options[len(options)-1], func(s string) error {
		for _, option := range options {
			if s == option {
				*field = s
				return nil
			}
		}
		return errWrong
	}}
}

func level(field *slog.Level) reader {
	return reader{"choice", "debug, info, warn or error", func(s string) error {
		switch s {
		case "debug", "info", "warn", "error":
			return field.UnmarshalText([]byte(s))
		default:
			return errWrong
		}
	}}
}

func address(field *string) reader {
	return reader{"text", "host:port, such as 127.0.0.1:8080 or :8080", func(s string) error {
		if _, _, err := splitAddress(s); err != nil {
			return err
		}
		*field = s
		return nil
	}}
}

// splitAddress splits host:port; the port is a number from 0 to 65535.
func splitAddress(s string) (host string, port int, err error) {
	host, portText, err := net.SplitHostPort(s)
	if err != nil {
		return "", 0, errWrong
	}
	n, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return "", 0, errWrong
	}
	return host, int(n), nil
}

// loopback reports whether an address can only be reached from this machine.
func loopback(addr string) bool {
	host, _, err := splitAddress(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
