package bench

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

// planned are costs in round numbers, so that what comes of them can be reckoned by hand.
func planned() Costs {
	cost := func(server, database, transactions, rows, log float64) Cost {
		return Cost{Server: server, Database: database, Transactions: transactions, Rows: rows, Log: log, Count: 1000}
	}
	return Costs{
		Store: "PostgreSQL", Body: 150, Multiple: 1,
		Frame: cost(50, 0, 0, 0, 0), Send: cost(250, 200, 0.5, 3, 1000), Ack: cost(150, 100, 0.25, 1, 300),
		Fetch: cost(100, 40, 0, 0, 0), Push: cost(10, 0, 0, 0, 0), Mix: cost(700, 400, 1, 5, 1600),
		Connection: 8 << 10, Disk: 600, PushesPer: 7, AcksPer: 1.75,
	}
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-3*math.Abs(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestTheModelReckonsWithSeed000sLoad(t *testing.T) {
	m, err := NewModel(planned(), Assumptions{Hop: 0.5, Multiples: []float64{1, 1000}})
	if err != nil {
		t.Fatal(err)
	}
	n := m.Needs[0]
	near(t, "messages", n.Messages, 1300)
	near(t, "pushes", n.Pushes, 9067)
	near(t, "acks", n.Acks, 9067/4.0)
	near(t, "redelivered", n.Redelivered, 272.01)
	near(t, "devices", n.Devices, 10_000)
	// Of 700 µs a message, 1,300 sends at 200 µs and 2,266.75 acks at 100 µs beyond
	// their frames are the rules; the hop doubles both. One gateway reads each event
	// once, which the mix holds already.
	near(t, "cores for logic", n.LogicCores, 2*(0.26+0.226675))
	near(t, "cores for gateways", n.GatewayCores, 2*(0.91-0.26-0.226675))
	near(t, "cores for the database", n.DBCores, 1300*400e-6)
	near(t, "transactions", n.Transactions, 1300)
	near(t, "rows", n.Rows, 1300*5)
	near(t, "logged", n.Log, 1300*1600)
	near(t, "disk", n.Disk, 1300*86_400*30*600)
	if n.Gateways != 2 || n.Logic != 2 || n.Primaries != 1 || n.Extrapolated {
		t.Errorf("one and a spare of each, measured: %+v", n)
	}
	if m, err := NewModel(planned(), Assumptions{Hop: -1, Spare: -1, Multiples: []float64{1}}); err != nil || m.Needs[0].Gateways != 1 || m.Needs[0].Logic != 1 {
		t.Errorf("one of each without a spare: %+v, %v", m, err)
	}
	big := m.Needs[1]
	near(t, "cores for 1,000 times the gateways", big.GatewayCores, 1000*n.GatewayCores)
	// 847 cores at two a node.
	if big.Gateways != 425 || big.GatewaysBy != "cores" || !big.Extrapolated {
		t.Errorf("%+v", big)
	}
	// Members sit on nearly as many gateways as there are members, and each of
	// those reads the event: the cost of reading does not grow in a straight line.
	if per := big.Fetches / big.Messages; per < 7.8 || per > 1+9067/1300.0 {
		t.Errorf("an event is read by %.2f gateways", per)
	}
	if big.LogicCores <= 1000*n.LogicCores {
		t.Errorf("%v cores for logic, as if each event were read once", big.LogicCores)
	}
}

// Measured apart, nothing is assumed of the hop: each role has what its process took.
func TestRolesThatWereApartHaveWhatTheirProcessesTook(t *testing.T) {
	c := planned()
	c.Apart, c.Mix.Logic, c.Fetch.Logic = true, 300, 60
	m, err := NewModel(c, Assumptions{Hop: 0.9, Spare: -1, Multiples: []float64{1, 100}})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "cores for gateways", m.Needs[0].GatewayCores, 1300*400e-6)
	near(t, "cores for logic", m.Needs[0].LogicCores, 1300*300e-6)
	n := m.Needs[1]
	more := n.Fetches - n.Messages
	near(t, "cores for logic with many gateways", n.LogicCores, 130_000*300e-6+more*60e-6)
	near(t, "what the database does for reading", n.DBCores, 130_000*400e-6+more*40e-6)
	if more < 5.9*n.Messages {
		t.Errorf("%.0f of %.0f events are read once more", more, n.Messages)
	}
	if text := strings.Join(m.assumptions(), "\n"); !strings.Contains(text, "were measured apart") || strings.Contains(text, "90 %") {
		t.Errorf("what is assumed of the roles:\n%s", text)
	}
}

func TestWhatDecidesTheNumberOfGateways(t *testing.T) {
	for by, of := range map[string]struct {
		assumed  Assumptions
		gateways int
	}{
		"connections": {Assumptions{Connections: 1000, Spare: 2}, 12},
		"memory":      {Assumptions{Memory: 8 << 20, Connections: 1e6, Spare: 2}, 12},
		"cores":       {Assumptions{Cores: 0.1, Use: 1, Hop: 0.5, Spare: 2}, 11},
	} {
		of.assumed.Multiples = []float64{1}
		m, err := NewModel(planned(), of.assumed)
		if err != nil {
			t.Fatal(err)
		}
		if n := m.Needs[0]; n.GatewaysBy != by || n.Gateways != of.gateways {
			t.Errorf("%d gateways because of %s, want %d because of %s", n.Gateways, n.GatewaysBy, of.gateways, by)
		}
	}
}

func TestWhatTheDatabaseLogsDecidesToo(t *testing.T) {
	m, err := NewModel(planned(), Assumptions{DBLog: 1e6, Multiples: []float64{1}})
	if err != nil {
		t.Fatal(err)
	}
	if n := m.Needs[0]; n.Primaries != 3 || n.PrimariesBy != "log" {
		t.Errorf("%+v", n)
	}
}

func TestAPushCostsWhatTheMixHasBeyondSendsAndAcks(t *testing.T) {
	c := planned()
	at := func(cpu, database, commits float64) spent {
		return spent{counters: counters{"process_cpu_seconds_total": cpu, storeCPU: database, "im_store_commits_total": commits}}
	}
	// 100 messages took 250 µs each, 200 acks 150 µs each, and 700 pushes the rest.
	c.mix(at(1+0.025+0.030+0.007, 2+0.030, 500), at(1, 2, 400), 100, tally{frames: 700, acks: 200})
	near(t, "a message", c.Mix.Server, 620)
	near(t, "pushes", c.PushesPer, 7)
	near(t, "acks", c.AcksPer, 2)
	near(t, "a push", c.Push.Server, 10)
	near(t, "transactions of a push", c.Push.Transactions, 0)
	if c.Push.Database != 0 {
		t.Errorf("less than nothing is left for a push: %v", c.Push.Database)
	}
	c.Push = Cost{}
	c.mix(at(1, 2, 3), at(1, 2, 3), 0, tally{})
	if c.Push != (Cost{}) || c.Mix != (Cost{}) {
		t.Errorf("of nothing: %+v", c)
	}
}

func TestCostsThatAreNoneAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(*Costs){
		"nothing was measured": func(c *Costs) { *c = Costs{} },
		"the mix was not":      func(c *Costs) { c.Mix.Count = 0 },
		"less than nothing":    func(c *Costs) { c.Push.Server = -1 },
		"no number":            func(c *Costs) { c.Ack.Server = math.NaN() },
	} {
		c := planned()
		spoil(&c)
		if _, err := NewModel(c, Assumptions{}); err == nil {
			t.Errorf("%s, and a model is made of it", name)
		}
	}
}

func TestTheModelIsPrintedWithWhatItAssumes(t *testing.T) {
	m, err := NewModel(planned(), Assumptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := &Report{Bench: "model", Model: m, Checks: []Check{{"x", true, "y"}}}
	var out strings.Builder
	if err := r.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"assumed, and not measured", "to cost 30 % of the throughput", "1 ×", "10 × *", "1,000 × *", "9,067,000", "* extrapolated in a straight line from 1 ×"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	m.Costs.InStore = true
	if m, err = NewModel(m.Costs, Assumptions{}); err != nil || m.Needs[0].DBCores != 0 || m.Needs[0].Primaries != 0 {
		t.Errorf("a store inside the server needs no server of its own: %+v, %v", m.Needs, err)
	}
	if text := strings.Join(m.assumptions(), "\n"); !strings.Contains(text, "in the server's process") {
		t.Errorf("it is not said that the store was in the server:\n%s", text)
	}
}

func TestAModelComesBackFromItsJSON(t *testing.T) {
	m, err := NewModel(planned(), Assumptions{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(&Report{Model: m})
	if err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(text, &back); err != nil || back.Model.Costs != m.Costs {
		t.Errorf("%+v, want %+v (%v)", back.Model.Costs, m.Costs, err)
	}
}

// A server that tells nothing of itself gives no costs, and no figure is made up.
func TestNoCostsWithoutMetrics(t *testing.T) {
	w := newWorld(t)
	err := w.Model(t.Context(), ModelLoad{Senders: 2, Devices: 4, Duration: 100 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "shows no metrics") || w.Report.Model != nil {
		t.Errorf("%v, %+v", err, w.Report.Model)
	}
}
