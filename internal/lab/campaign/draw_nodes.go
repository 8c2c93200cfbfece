package campaign

// nodeWeights are drawn beside the others when there are several nodes.
var nodeWeights = []weight{
	{6, (*draft).nodeKill}, {3, (*draft).nodeDrain}, {4, (*draft).nodePause}, {6, (*draft).nodeCut},
	{3, (*draft).dbStop}, {3, (*draft).dbKill}, {2, (*draft).dbPause}, {3, (*draft).promote},
}

// apartWeights are drawn beside those when gateways and logic nodes are apart.
var apartWeights = []weight{
	{5, (*draft).logicKill}, {5, (*draft).edgeKill}, {3, (*draft).logicPause}, {5, (*draft).hopCut},
	{3, (*draft).redisKill}, {2, (*draft).redisPause}, {2, (*draft).redisWipe},
}

// node adds a step that breaks one node for a while.
func (d *draft) node(do Deed, most int) {
	d.add(Step{Do: do, Phone: d.IntN(d.Nodes), Size: 1 + d.IntN(most)})
	d.send()
}

func (d *draft) nodeKill()  { d.node(NodeKill, 20) }
func (d *draft) nodeDrain() { d.node(NodeDrain, 10) }
func (d *draft) nodePause() { d.node(NodePause, 60) }
func (d *draft) nodeCut()   { d.node(NodeCut, 60) }

// database adds a step that breaks the database for a while.
func (d *draft) database(do Deed, most int) {
	d.add(Step{Do: do, Size: 1 + d.IntN(most)})
	d.send()
}

func (d *draft) logicKill()  { d.node(LogicKill, 20) }
func (d *draft) edgeKill()   { d.node(EdgeKill, 20) }
func (d *draft) logicPause() { d.node(LogicPause, 40) }
func (d *draft) hopCut()     { d.node(HopCut, 60) }
func (d *draft) redisKill()  { d.database(RedisKill, 30) }
func (d *draft) redisPause() { d.database(RedisPause, 40) }
func (d *draft) redisWipe()  { d.database(RedisWipe, 1) }

func (d *draft) dbStop()  { d.database(DBStop, 20) }
func (d *draft) dbPause() { d.database(DBPause, 40) }

// dbKill strikes while messages are on their way: what was answered a moment before is
// what a database could lose.
func (d *draft) dbKill() {
	d.burst()
	d.add(Step{Do: DBKill, Size: 1 + d.IntN(20)})
	d.Steps[len(d.Steps)-1].Wait = d.IntN(2)
	d.send()
}

// promote lets the standby take over, once: there is no second one.
func (d *draft) promote() {
	if !d.Standby || d.moved {
		return
	}
	d.moved = true
	d.burst()
	d.add(Step{Do: Promote})
	d.send()
}
