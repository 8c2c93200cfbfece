package processes

import (
	"slices"
	"testing"

	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/lab/campaign"
)

// plantedNodes are bugs of several nodes.
var plantedNodes = []plant{
	{fault.NoDedup, "D2", true},
	{fault.SentBeforeCommit, "D1", false},
	{fault.NoFlush, "D1", false},
	{fault.SeqHole, "D7", false},
	{fault.PrevIgnored, "D14", false},
	{fault.CursorAhead, "D4", false},
	{fault.NIgnored, "D9", false},
	{fault.RecallKeepsBody, "D17", false},
}

// plantedMySQL are those of the store on MariaDB: only the server decides there when to
// flush.
var plantedMySQL = slices.DeleteFunc(slices.Clone(plantedNodes), func(p plant) bool { return p.bug == fault.NoFlush })

// TestNodes: nothing is found on clean nodes.
func TestNodes(t *testing.T) { clean(t, "CAMPAIGN_NODE_RUNS", 1, PostgreSQL, campaign.DrawNodes) }

// TestApart: nor on gateways and logic nodes apart.
func TestApart(t *testing.T) { clean(t, "CAMPAIGN_APART_RUNS", 1, PostgreSQL, campaign.DrawApart) }

// TestApartOnMySQL: nor on MariaDB.
func TestApartOnMySQL(t *testing.T) {
	clean(t, "CAMPAIGN_MYSQL_APART_RUNS", 1, MySQL, campaign.DrawApart)
}

// TestPlantedBugsOfNodesAreFound: the judge can fail here too. CAMPAIGN_ALL=1 hunts
// all.
func TestPlantedBugsOfNodesAreFound(t *testing.T) {
	t.Parallel()
	binary := program(t)
	for _, p := range chosen(plantedNodes) {
		t.Run(string(p.bug), func(t *testing.T) { hunt(t, binary, p, PostgreSQL, campaign.DrawNodes) })
	}
}

// TestPlantedBugsApartAreFound: nor is it blind where roles are apart.
func TestPlantedBugsApartAreFound(t *testing.T) {
	t.Parallel()
	binary := program(t)
	for _, p := range chosen(plantedNodes) {
		t.Run(string(p.bug), func(t *testing.T) { hunt(t, binary, p, PostgreSQL, campaign.DrawApart) })
	}
}

// TestPlantedBugsOnMySQLAreFound: nor there on MariaDB.
func TestPlantedBugsOnMySQLAreFound(t *testing.T) {
	t.Parallel()
	binary := program(t)
	for _, p := range chosen(plantedMySQL) {
		t.Run(string(p.bug), func(t *testing.T) { hunt(t, binary, p, MySQL, campaign.DrawApart) })
	}
}
