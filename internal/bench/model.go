package bench

import (
	"errors"
	"fmt"
	"math"
)

// Cost is what one operation takes. Times are of one core of the machine that it
// was measured on.
type Cost struct {
	Server       float64 `json:"server_us"`    // µs in the server's process, or in those of its roles
	Logic        float64 `json:"logic_us"`     // µs of them in the logic node; 0 where the roles were not apart
	Database     float64 `json:"database_us"`  // µs in the database's processes; 0 where the store is in the server
	Transactions float64 `json:"transactions"` // that wrote
	Rows         float64 `json:"rows"`         // inserted, updated or deleted; 0: not known
	Log          float64 `json:"log_bytes"`    // that the database logs, or SQLite writes; 0: not known
	Count        int64   `json:"count"`        // operations that this is the mean of; 0: it was not measured
}

// Costs are what a [Model] is computed from. They are measured in one run.
type Costs struct {
	Store   string `json:"store"`    // what the database was
	InStore bool   `json:"in_store"` // the store is in the server's process, so that Server holds its share too
	Apart   bool   `json:"apart"`    // a gateway and a logic node were processes of their own
	Body    int    `json:"body_bytes"`
	// Multiple of the baseline at which it was measured: what needs more is extrapolated.
	Multiple float64 `json:"measured_at_multiple"`
	Frame    Cost    `json:"frame"` // a request and its answer that only the edge sees: a ping
	Send     Cost    `json:"send"`
	Ack      Cost    `json:"ack"`
	Fetch    Cost    `json:"fetch"` // reading one event from the rules: a sync with a page of one
	// Push is what the mix costs beyond its sends and acks, per event frame: the
	// push itself, and its share of receipts, of retries and of what was lost.
	Push Cost `json:"push"`
	// Mix is a message of the baseline with all that comes of it.
	Mix          Cost    `json:"mix"`
	Connection   float64 `json:"connection_bytes"`    // resident memory of a connected device; 0: not known
	Disk         float64 `json:"disk_bytes"`          // a stored message with its indexes; 0: not known
	PushesPer    float64 `json:"pushes_per_message"`  // as the mix had them
	AcksPer      float64 `json:"acks_per_message"`    // likewise
	BatchedSends float64 `json:"sends_a_transaction"` // at the rate of the run
}

// Validate says what makes costs useless for a model.
func (c *Costs) Validate() error {
	var errs []error
	for name, v := range map[string]float64{"send": c.Send.Server, "ack": c.Ack.Server, "push": c.Push.Server, "frame": c.Frame.Server, "fetch": c.Fetch.Server} {
		if !(v >= 0) || math.IsInf(v, 0) {
			errs = append(errs, fmt.Errorf("the cost of %s is %v", name, v))
		}
	}
	if c.Send.Count == 0 || c.Mix.Count == 0 || c.Send.Server == 0 {
		errs = append(errs, errors.New("it has no measured costs: it should be the --json of a whole run of impart bench model"))
	}
	return errors.Join(errs...)
}

// Assumptions are what a [Model] takes as given. The zero value of a field is its default.
type Assumptions struct {
	Devices     float64   `json:"devices"`           // connected at once, per multiple; 10,000
	Cores       float64   `json:"cores"`             // of a gateway and of a logic node; 4
	Use         float64   `json:"use"`               // share of the cores that is planned with; 0.5
	Memory      float64   `json:"memory_bytes"`      // of a gateway, for connections; 4 GiB
	Connections float64   `json:"connections"`       // that a gateway may have; 50,000
	Spare       float64   `json:"spare"`             // nodes of each kind that may be missing; 1. Less than 0: none
	Hop         float64   `json:"hop"`               // share of the throughput that gRPC between the roles takes, where they were not measured apart; 0.3. Less than 0: none
	DBCores     float64   `json:"database_cores"`    // of one database server; 16
	DBLog       float64   `json:"database_log_rate"` // bytes a second that its disk takes; 200 MB
	Retention   float64   `json:"retention_days"`    // 30, as seed 000 plans
	Multiples   []float64 `json:"multiples"`         // 1, 10, 100, 1,000
}

func (a *Assumptions) setDefaults() {
	defaultTo(&a.Devices, baselineDevice)
	defaultTo(&a.Cores, 4)
	defaultTo(&a.Use, 0.5)
	defaultTo(&a.Memory, 4<<30)
	defaultTo(&a.Connections, 50_000)
	defaultTo(&a.Spare, 1)
	defaultTo(&a.Hop, 0.3)
	defaultTo(&a.DBCores, 16)
	defaultTo(&a.DBLog, 200e6)
	defaultTo(&a.Retention, 30)
	a.Spare, a.Hop = max(a.Spare, 0), max(a.Hop, 0)
	if a.Multiples == nil {
		a.Multiples = []float64{1, 10, 100, 1000}
	}
}

// Need is what one multiple of the baseline takes. Rates are a second.
type Need struct {
	Multiple     float64 `json:"multiple"`
	Messages     float64 `json:"messages"`
	Pushes       float64 `json:"pushes"`
	Acks         float64 `json:"acks"`
	Redelivered  float64 `json:"redelivered"`
	Devices      float64 `json:"devices"`
	Fetches      float64 `json:"fetches"` // events that gateways read from logic nodes
	GatewayCores float64 `json:"gateway_cores"`
	LogicCores   float64 `json:"logic_cores"`
	DBCores      float64 `json:"database_cores"` // 0: the store is in the server
	Gateways     int     `json:"gateways"`
	GatewaysBy   string  `json:"gateways_by"` // what decides their number: cores, connections or memory
	Logic        int     `json:"logic"`
	Primaries    int     `json:"primaries"` // database servers that share the writes; 0: not known
	PrimariesBy  string  `json:"primaries_by,omitempty"`
	Transactions float64 `json:"transactions"`
	Rows         float64 `json:"rows"`
	Log          float64 `json:"log_bytes"`
	Disk         float64 `json:"disk_bytes"`   // of what is retained, one copy
	Extrapolated bool    `json:"extrapolated"` // it is more than was measured
}

// Model says how many nodes multiples of the baseline need.
type Model struct {
	Costs   Costs       `json:"costs"`
	Assumed Assumptions `json:"assumed"`
	Needs   []Need      `json:"needs"`
}

// NewModel computes the needs of each multiple from costs.
func NewModel(c Costs, a Assumptions) (*Model, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	a.setDefaults()
	m := &Model{Costs: c, Assumed: a}
	for _, multiple := range a.Multiples {
		m.Needs = append(m.Needs, m.need(multiple))
	}
	return m, nil
}

const (
	acksPerPush = 0.25 // one ack per four pushes
	day         = 86_400
)

// need computes one multiple from what a message of the mix costs, with all that
// comes of it: operations measured alone share transactions with fewer, so that their
// sum is not the mix. They tell only whose work it is.
func (m *Model) need(multiple float64) Need {
	c, a := &m.Costs, &m.Assumed
	n := Need{
		Multiple: multiple, Messages: baselineSends * multiple, Pushes: baselinePushes * multiple,
		Acks: baselinePushes * multiple * acksPerPush, Redelivered: baselinePushes * multiple * baselineLoss,
		Devices: a.Devices * multiple, Extrapolated: multiple > c.Multiple,
	}
	n.Gateways = 1
	// How often events are read depends on the number of gateways, and that on how
	// often they read: a few rounds are enough for it to stay.
	for range 8 {
		n.Fetches = n.Messages * reading(float64(n.Gateways))
		m.shares(&n)
		n.Gateways, n.GatewaysBy = most(map[string]float64{
			"cores":       n.GatewayCores / (a.Cores * a.Use),
			"connections": n.Devices / a.Connections,
			"memory":      n.Devices * c.Connection / a.Memory,
		})
	}
	n.Gateways += int(a.Spare)
	n.Logic, _ = most(map[string]float64{"cores": n.LogicCores / (a.Cores * a.Use)})
	n.Logic += int(a.Spare)
	n.Transactions, n.Rows, n.Log = n.Messages*c.Mix.Transactions, n.Messages*c.Mix.Rows, n.Messages*c.Mix.Log
	n.Disk = n.Messages * day * a.Retention * c.Disk
	if c.InStore {
		return n
	}
	n.DBCores = (n.Messages*c.Mix.Database + (n.Fetches-n.Messages)*c.Fetch.Database) / 1e6
	n.Primaries, n.PrimariesBy = most(map[string]float64{"cores": n.DBCores / (a.DBCores * a.Use), "log": n.Log / a.DBLog})
	return n
}

// shares are the cores of the two roles.
func (m *Model) shares(n *Need) {
	c := &m.Costs
	more := n.Fetches - n.Messages // the first read of an event is part of the mix
	if c.Apart {
		edge := func(c Cost) float64 { return beyond(c.Server, c.Logic) }
		n.GatewayCores = (n.Messages*edge(c.Mix) + more*beyond(edge(c.Fetch), c.Frame.Server)) / 1e6
		n.LogicCores = (n.Messages*c.Mix.Logic + more*c.Fetch.Logic) / 1e6
		return
	}
	hop := 1 / (1 - m.Assumed.Hop)
	whole := n.Messages * c.Mix.Server
	rules := min(n.Messages*beyond(c.Send.Server, c.Frame.Server)+n.Acks*beyond(c.Ack.Server, c.Frame.Server), whole)
	n.GatewayCores = (whole - rules) * hop / 1e6
	n.LogicCores = (rules + more*beyond(c.Fetch.Server, c.Frame.Server)) * hop / 1e6
}

// beyond is what is left of a cost without a part of it.
func beyond(whole, part float64) float64 { return max(whole-part, 0) }

// reading is how many of n gateways have a device of a conversation, in the mean,
// when its members connect anywhere: each of them reads the event once.
func reading(n float64) float64 {
	const members = 1 + baselinePushes/float64(baselineSends)
	return n * (1 - math.Pow(1-1/n, members))
}

// most is the greatest of some numbers of nodes, as a whole number of at least
// one, and which of them it was.
func most(of map[string]float64) (nodes int, by string) {
	best := 0.0
	for name, n := range of {
		if n > best || n == best && (by == "" || name < by) {
			best, by = n, name
		}
	}
	return int(max(math.Ceil(best), 1)), by
}
