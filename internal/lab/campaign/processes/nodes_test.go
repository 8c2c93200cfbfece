package processes

import (
	"testing"

	"github.com/impart-im/impart/internal/fault"
	"github.com/impart-im/impart/internal/lab/campaign"
)

// plantedNodes are bugs of several nodes on PostgreSQL.
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

// TestNodes: nothing is found on clean nodes.
func TestNodes(t *testing.T) { clean(t, "CAMPAIGN_NODE_RUNS", 1, campaign.DrawNodes) }

// TestApart: nor on gateways and logic nodes apart.
func TestApart(t *testing.T) { clean(t, "CAMPAIGN_APART_RUNS", 1, campaign.DrawApart) }

// TestPlantedBugsOfNodesAreFound: the judge can fail here too. CAMPAIGN_ALL=1 hunts
// all.
func TestPlantedBugsOfNodesAreFound(t *testing.T) {
	binary := program(t)
	for _, p := range chosen(plantedNodes) {
		t.Run(string(p.bug), func(t *testing.T) { hunt(t, binary, p, campaign.DrawNodes) })
	}
}

// TestPlantedBugsApartAreFound: nor is it blind where roles are apart.
func TestPlantedBugsApartAreFound(t *testing.T) {
	binary := program(t)
	for _, p := range chosen(plantedNodes) {
		t.Run(string(p.bug), func(t *testing.T) { hunt(t, binary, p, campaign.DrawApart) })
	}
}
