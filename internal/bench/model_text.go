package bench

import (
	"fmt"
	"io"
	"strings"
)

// model writes what operations cost, what is assumed, and what multiples need.
func (p *printer) model(m *Model) {
	c := &m.Costs
	p.line("")
	p.line("what one operation costs, as measured at %s × the baseline (µs of a core; %s)", number(c.Multiple), c.Store)
	p.table(func(t io.Writer) {
		fmt.Fprintln(t, "  operation\tserver\tof it logic\tdatabase\ttransactions\trows\tlogged bytes\tof so many")
		for _, row := range []struct {
			name string
			cost Cost
		}{
			{"a frame and its answer", c.Frame}, {"a send", c.Send}, {"an ack", c.Ack}, {"a read of one event", c.Fetch},
			{"a push, with its share of what was lost", c.Push}, {"a message of the mix, all in all", c.Mix},
		} {
			x := row.cost
			fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\n", row.name, number(x.Server), known(x.Logic), known(x.Database), known(x.Transactions), known(x.Rows), known(x.Log), x.Count)
		}
	})
	if c.Push.Count > 0 && c.Push.Server == 0 {
		p.line("  (sends and acks shared transactions with more in the mix than alone, and were cheaper there: what is left for a push cannot be told)")
	}
	p.line("  a message of the mix had %s pushes and %s acks; %s sends shared a transaction", number(c.PushesPer), number(c.AcksPer), number(c.BatchedSends))
	p.line("  a connected device %s of memory; a stored message %s of disk", bytesOf(c.Connection), bytesOf(c.Disk))
	p.line("")
	p.line("assumed, and not measured")
	for _, line := range m.assumptions() {
		p.line("  - %s", line)
	}
	p.line("")
	p.line("what multiples of the baseline need")
	p.table(func(t io.Writer) { m.needs(t) })
	if len(m.Needs) > 0 && m.Needs[len(m.Needs)-1].Extrapolated {
		p.line("  * extrapolated in a straight line from %s ×: a plan to measure against, no measurement", number(c.Multiple))
	}
}

// assumptions are the sentences that the figures rest on.
func (m *Model) assumptions() []string {
	a := &m.Assumed
	lines := []string{
		fmt.Sprintf("the load: %s messages and %s pushes a second, an ack for %s pushes, %s %% of them redelivered, %s devices; times the multiple, and the mix stays the same",
			number(baselineSends), number(baselinePushes), number(1/acksPerPush), number(100*baselineLoss), number(a.Devices)),
		fmt.Sprintf("a gateway and a logic node have %s cores like this machine's, used to %s %%; a gateway has %s of memory for at most %s connections; %s of each kind may be missing",
			number(a.Cores), number(100*a.Use), bytesOf(a.Memory), number(a.Connections), number(a.Spare)),
		m.roles(),
		"the members of a conversation are spread over all gateways, and each gateway that has one of them reads the event from a logic node, at the full cost of a read alone: what batches and caches save there is not counted",
		"costs are linear: a send costs as much in a larger log, and among more nodes; a busier server shares its transactions among more, so that it needs fewer than this",
	}
	if m.Costs.InStore {
		return append(lines, "the store was in the server's process, so that a logic node's figures hold its work too; measure with --store postgres to have the database apart")
	}
	return append(lines, fmt.Sprintf("a database server has %s cores, used to %s %%, and logs at most %s a second; writes can be shared among several of them, which takes an engine that does so; replicas and what they cost are not counted",
		number(a.DBCores), number(100*a.Use), bytesOf(a.DBLog)))
}

// roles says how the work of the two roles was told apart.
func (m *Model) roles() string {
	if m.Costs.Apart {
		return "a gateway and a logic node were measured apart, one of each, on the machine of the load and of the database; more of them are taken to share the work evenly"
	}
	return fmt.Sprintf("both roles were measured in one process: gRPC between them is taken to cost %s %% of the throughput; a gateway does the pushes and the frames, a logic node the rest of a send and of an ack", number(100*m.Assumed.Hop))
}

// needs writes one column a multiple.
func (m *Model) needs(w io.Writer) {
	row := func(name string, of func(n *Need) string) {
		cells := []string{name}
		for i := range m.Needs {
			cells = append(cells, of(&m.Needs[i]))
		}
		fmt.Fprintln(w, "  "+strings.Join(cells, "\t"))
	}
	row("", func(n *Need) string {
		star := ""
		if n.Extrapolated {
			star = " *"
		}
		return number(n.Multiple) + " ×" + star
	})
	row("messages a second", func(n *Need) string { return number(n.Messages) })
	row("pushes a second", func(n *Need) string { return number(n.Pushes) })
	row("acks a second", func(n *Need) string { return number(n.Acks) })
	row("redelivered a second", func(n *Need) string { return number(n.Redelivered) })
	row("devices", func(n *Need) string { return number(n.Devices) })
	row("events read by gateways a second", func(n *Need) string { return number(n.Fetches) })
	row("cores for gateways", func(n *Need) string { return number(n.GatewayCores) })
	row("gateways", func(n *Need) string { return fmt.Sprintf("%s (%s)", number(float64(n.Gateways)), n.GatewaysBy) })
	row("cores for logic", func(n *Need) string { return number(n.LogicCores) })
	row("logic nodes", func(n *Need) string { return number(float64(n.Logic)) })
	if !m.Costs.InStore {
		row("cores for the database", func(n *Need) string { return number(n.DBCores) })
		row("database servers that write", func(n *Need) string { return fmt.Sprintf("%s (%s)", number(float64(n.Primaries)), n.PrimariesBy) })
	}
	row("transactions a second", func(n *Need) string { return number(n.Transactions) })
	row("rows written a second", func(n *Need) string { return known(n.Rows) })
	row("logged a second", func(n *Need) string { return bytesOf(n.Log) })
	row(fmt.Sprintf("disk for %s days", number(m.Assumed.Retention)), func(n *Need) string { return bytesOf(n.Disk) })
}

// known is a number, or a dash for what was not measured.
func known(v float64) string {
	if v == 0 {
		return "-"
	}
	return number(v)
}

// bytesOf is a size with its unit; a dash for what was not measured.
func bytesOf(v float64) string {
	if v == 0 {
		return "-"
	}
	units := []string{"B", "kB", "MB", "GB", "TB", "PB"}
	i := 0
	for ; v >= 1000 && i < len(units)-1; i++ {
		v /= 1000
	}
	return number(v) + " " + units[i]
}
