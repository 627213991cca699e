package integration

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// judgedWorld is a workload cluster with one health check, as two controllers see it: Cluster API's own and Fettle.
type judgedWorld struct {
	name     string
	limit    judgedLimit
	startup  int32 // seconds
	template judgedTemplate
	machines []judgedMachine
	stages   [judgedStages]judgedStage

	// sides are the same world on two management clusters.
	sides [2]*clusterFixture
	stage int
	due   time.Time
	rest  judgedRest
	// earlier is what both sides said when the previous stage was at rest.
	earlier [2]facts
}

// judgedStages is how many stages a world goes through.
const judgedStages = 2

// The sides of a world.
const (
	judge  = iota // Cluster API's own health check
	fettle        // Fettle
)

type judgedLimit string

// The limits of a health check.
const (
	limitUnlimited   judgedLimit = ""
	limitNone        judgedLimit = "0"
	limitOne         judgedLimit = "1"
	limitSome        judgedLimit = "40%"
	limitMost        judgedLimit = "80%"
	limitNegative    judgedLimit = "-1"
	limitRangeOfFew  judgedLimit = "[1-2]"
	limitRangeOfMany judgedLimit = "[2-4]"
	limitWrongRange  judgedLimit = "[3-1]"
)

type judgedTemplate int

// The templates of remediation requests.
const (
	byTheOwner judgedTemplate = iota
	templateIsThere
	templateIsMissing
)

// judgedMachine has the properties of a machine that never change.
type judgedMachine struct {
	name           string
	member, orphan bool
	// twin is set if the machine refers to the node of the machine before it.
	twin bool
}

// judgedStage is a state of a world, in which its controllers come to rest.
type judgedStage struct {
	infrastructureReady, initialized bool
	clusterPaused, checkPaused       bool
	machines                         []machineState
}

// machineState is the state of a machine as a controller finds it. Some properties never end: failed, deleting, with a
// node.
type machineState struct {
	node       nodeState
	broken     bool // its condition Broken is True
	failed     bool // its failureMessage is set
	deleting   bool
	excluded   bool   // its node has medik8s' label
	annotation string // its only annotation
	answer     ownersAnswer
}

// ownersAnswer is what the owner of a machine has answered to a mark. Without a mark there is none.
type ownersAnswer int

// The answers.
const (
	noAnswer ownersAnswer = iota
	remediationDeferred
	remediationDone
)

type nodeState int

// The states of a node.
const (
	noNode nodeState = iota
	nodeReady
	nodeNotReady
	nodeUnknown
	nodePressed     // just now, by a criterion of ten minutes
	nodePressedLong // by the same criterion, for an hour
	nodeGone        // the machine refers to it
)

func (w *judgedWorld) String() string {
	words := []string{fmt.Sprintf("limit %q, startup %ds, template %d", w.limit, w.startup, w.template)}
	for i := range w.stage + 1 {
		words = append(words, fmt.Sprintf("stage %d: %+v", i, w.stages[i]))
	}
	return strings.Join(append(words, fmt.Sprintf("machines %+v", w.machines)), "\n    ")
}

// drawWorld draws the same world from the same seed.
func drawWorld(seed uint64, number int) *judgedWorld {
	r := rand.New(rand.NewPCG(seed, uint64(number)))
	w := &judgedWorld{name: fmt.Sprintf("w%d", number)}
	w.limit = pickOne(r, limitUnlimited, limitUnlimited, limitUnlimited, limitNone, limitOne, limitSome, limitMost, limitNegative, limitRangeOfFew, limitRangeOfMany, limitWrongRange)
	w.startup = pickOne[int32](r, 0, 30, 600)
	w.template = pickOne(r, byTheOwner, byTheOwner, byTheOwner, templateIsThere, templateIsThere, templateIsMissing)
	for i := range 1 + r.IntN(5) {
		w.machines = append(w.machines, judgedMachine{name: string(rune('a' + i)), member: byChance(r, 20), orphan: byChance(r, 10)})
	}
	if number%10 == 9 { // a control plane with a remediator for its members
		w.limit, w.template = limitUnlimited, templateIsThere
		for i := range w.machines {
			w.machines[i].member = true
		}
	}
	if last := len(w.machines) - 1; last > 0 && w.limit == limitUnlimited && byChance(r, 20) {
		w.machines[last].twin = true
	}
	w.stages[0] = w.drawFirst(r)
	for i := 1; i < judgedStages; i++ {
		w.stages[i] = w.drawNext(r, w.stages[i-1])
	}
	return w
}

func pickOne[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

func byChance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

func (w *judgedWorld) drawFirst(r *rand.Rand) judgedStage {
	s := judgedStage{
		infrastructureReady: !byChance(r, 10), initialized: !byChance(r, 10),
		clusterPaused: byChance(r, 5), checkPaused: byChance(r, 8),
	}
	for range w.machines {
		s.machines = append(s.machines, w.drawMachine(r, machineState{
			node: pickOne(r, noNode, nodeReady, nodeReady, nodeReady, nodeReady, nodeNotReady, nodeUnknown, nodePressed, nodePressedLong, nodeGone),
		}))
	}
	w.pair(s.machines)
	return s
}

// drawMachine draws all of a machine but its node. Cluster API's own health check ignores failures and labels, so its
// gate would differ too. They are drawn where the gate is always open.
func (w *judgedWorld) drawMachine(r *rand.Rand, m machineState) machineState {
	m.broken = byChance(r, 10)
	m.deleting = m.deleting || byChance(r, 6)
	m.failed = m.failed || w.limit == limitUnlimited && byChance(r, 5)
	m.excluded = m.excluded || byChance(r, 8) && m.node != noNode && m.node != nodeGone
	m.annotation, m.answer = "", noAnswer
	if byChance(r, 20) {
		m.annotation = pickOne(r, "cluster.x-k8s.io/skip-remediation", "cluster.x-k8s.io/paused", "cluster.x-k8s.io/remediate-machine")
	}
	return m
}

// drawNext changes about half of a stage, or makes owners answer marks. They do not answer while anything else changes:
// a mark that comes with a change may be answered on one side and not on the other.
func (w *judgedWorld) drawNext(r *rand.Rand, before judgedStage) judgedStage {
	s := before
	s.machines = nil
	if byChance(r, 20) {
		for _, m := range before.machines {
			m.answer = pickOne(r, noAnswer, remediationDeferred, remediationDone)
			s.machines = append(s.machines, m)
		}
		return s
	}
	toggle := func(value *bool, percent int) {
		if byChance(r, percent) {
			*value = !*value
		}
	}
	toggle(&s.infrastructureReady, 10)
	s.initialized = s.initialized || byChance(r, 50) // Cluster API never resets it
	toggle(&s.clusterPaused, 8)
	toggle(&s.checkPaused, 15)
	for i, m := range before.machines {
		if byChance(r, 50) {
			m = w.drawMachine(r, m)
			m.node = w.drawNode(r, m.node)
		}
		if m.skipped() || m.deleting { // a controller may or may not see another change before
			m.node, m.broken = before.machines[i].node, before.machines[i].broken
		}
		s.machines = append(s.machines, m)
	}
	w.pair(s.machines)
	return s
}

// pair sets the node of each twin to that of the machine before it.
func (w *judgedWorld) pair(machines []machineState) {
	for i, m := range w.machines {
		if m.twin {
			machines[i].node, machines[i].excluded = machines[i-1].node, machines[i-1].excluded
		}
	}
}

// paired reports whether the machine at an index shares its node with another that is not in deletion.
func (w *judgedWorld) paired(at int) bool {
	last := len(w.machines) - 1
	if last < 1 || !w.machines[last].twin || at < last-1 {
		return false
	}
	return !w.now().machines[last].deleting && !w.now().machines[last-1].deleting
}

func (w *judgedWorld) drawNode(r *rand.Rand, before nodeState) nodeState {
	if before == noNode {
		return pickOne(r, noNode, nodeReady, nodeReady, nodeNotReady)
	}
	return pickOne(r, nodeReady, nodeReady, nodeReady, nodeNotReady, nodeUnknown, nodePressed, nodePressedLong, nodeGone)
}
