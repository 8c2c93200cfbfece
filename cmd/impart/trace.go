package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/impart-im/impart"
	"github.com/impart-im/impart/internal/api"
)

func traceCommand(env streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trace CONV SEQ",
		Short: "Who has this message: stored when, on which device, read by whom",
		Long: "Asks a running server how far one event has come: when it was stored, on which devices of which users it is, " +
			"which devices still lack it and by how much, and who has read it. It shows no text of the message.",
		Example: "impart trace c-demo 7\nimpart trace c-demo 7 --json",
		Args:    exactArgs("CONV", "SEQ"),
		RunE: func(cmd *cobra.Command, args []string) error {
			seq, err := strconv.ParseInt(args[1], 10, 64)
			if err != nil || seq < 1 || seq > impart.MaxNumber {
				return usagef("SEQ: %q should be a whole number from 1", args[1])
			}
			c, err := newClient(cmd, env)
			if err != nil {
				return err
			}
			var d api.Delivery
			raw, err := c.ask(cmd.Context(), http.MethodGet, adminPath("conversations", args[0], "events", args[1], "delivery"), nil, &d)
			if err != nil {
				return err
			}
			return c.show(cmd, raw, func(w io.Writer) error { return printDelivery(w, d) })
		},
	}
	addClient(cmd)
	return cmd
}

func printDelivery(w io.Writer, d api.Delivery) error {
	ev := d.Event
	fmt.Fprintf(w, "%s %d: %s from %s", oneLine(string(ev.Conv)), ev.Seq, ev.Kind, oneLine(string(ev.Sender)))
	if ev.Device != "" {
		fmt.Fprintf(w, " on %s", oneLine(string(ev.Device)))
	}
	if ev.Recalled {
		fmt.Fprint(w, ", recalled")
	}
	fmt.Fprintf(w, "\nstored %s as %s, head is %d\n\n", clock(int64(ev.At)), ev.MID, d.Head)
	t := newTable(w, "USER", "READ", "DEVICE", "STATE", "LAST ACK")
	var has, devices, read, others int
	for _, u := range d.Users {
		// That a sender knows their own message tells nothing.
		if u.User != ev.Sender {
			others++
			if u.Read {
				read++
			}
		}
		if len(u.Devices) == 0 {
			t.row(string(u.User), yesNo(u.Read), "-", "no device yet", "")
		}
		for _, cur := range u.Devices {
			devices++
			if deliveryState(cur, ev.Seq) == delivered {
				has++
			}
			t.row(string(u.User), yesNo(u.Read), string(cur.Device), deliveryState(cur, ev.Seq), clock(int64(cur.Updated)))
		}
	}
	if err := t.end(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\non %d of %d devices, read by %d of %s\n", has, devices, read, count(others, "other"))
	return err
}

// count is a number of things in words: 1 other, 2 others.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// delivered is the state of a device that has the event.
const delivered = "delivered"

// deliveryState says whether a device has the event at seq.
func deliveryState(cur api.Cursor, seq impart.Seq) string {
	switch {
	case cur.Start >= seq:
		return fmt.Sprintf("started later, at %d", cur.Start)
	case cur.Delivered >= seq:
		return delivered
	default:
		return fmt.Sprintf("lagging at %d, %d to go", cur.Delivered, seq-cur.Delivered)
	}
}
