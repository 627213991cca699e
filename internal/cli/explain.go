package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/internal/core"
)

// mostEarlier bounds the finished repairs of a pool that are shown.
const mostEarlier = 5

// find returns the targets of a machine's or node's name, in a namespace or in all. A node name matches the node and
// its machine, unless health checks select only one of them.
func (w *assessment) find(kind, name, namespace string) []int {
	var found []int
	for i := range w.cluster.Targets {
		if matchesTarget(&w.cluster.Targets[i], kind, name, namespace) {
			found = append(found, i)
		}
	}
	selected := func(i int) bool { return len(w.verdictsOf[i]) > 0 }
	if kind == nodeSubject && slices.ContainsFunc(found, selected) {
		found = slices.DeleteFunc(found, func(i int) bool { return !selected(i) })
	}
	return found
}

// unknownNode says why nothing is known of a node that exists.
func (w *assessment) unknownNode(name, within string, v *view) string {
	where := ""
	if within != "" {
		where = " in namespace " + within
	}
	var texts []string
	if v.reads("Machine") {
		texts = append(texts, "No machine"+where+" refers to node "+name+" (status.nodeRef), so health checks of machines don't see it.")
	}
	if v.reads("Node") {
		texts = append(texts, "No NodeHealthCheck selects node "+name+".", w.nearestOf(core.ID{Kind: "Node", Name: name}, v.unmet))
	}
	texts = append(texts, "Nothing is done to it.")
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), " ")
}

// unmet returns the requirements of a policy's selector that a target lacks.
type unmet func(policy, target core.ID) ([]string, bool)

// explainTarget explains one target. The metadata is that of its own object, or nil.
func (w *assessment) explainTarget(i int, meta *metav1.PartialObjectMetadata, lacks unmet) ExplainedTarget {
	t := &w.cluster.Targets[i]
	e := ExplainedTarget{Target: w.target(i), Next: w.nextOf(i)}
	if meta != nil {
		e.Finalizers = meta.Finalizers
		if meta.DeletionTimestamp != nil {
			e.Deleting = instant(meta.DeletionTimestamp.Time)
		}
	}
	if len(e.Verdicts) == 0 {
		e.Unselected = w.nearest(t.ID, lacks)
	}
	w.fillDetails(i, &e)
	e.Earlier = w.earlier(t)
	return e
}

// earlier returns the finished repairs of a target, and of other targets of its owner.
func (w *assessment) earlier(t *core.Target) []Repair {
	var found []int
	for i := range w.cluster.Repairs {
		r := &w.cluster.Repairs[i]
		pool := t.Owner.UID != "" && r.Owner == t.Owner
		if !r.Running() && (pool || r.Target == t.ID) {
			found = append(found, i)
		}
	}
	slices.SortStableFunc(found, func(a, b int) int {
		return w.cluster.Repairs[b].Started.Compare(w.cluster.Repairs[a].Started)
	})
	var repairs []Repair
	for _, i := range found[:min(len(found), mostEarlier)] {
		repairs = append(repairs, w.repair(i))
	}
	return repairs
}

// nearest names the health check whose selector misses a target by the fewest requirements.
func (w *assessment) nearest(target core.ID, lacks unmet) string {
	if text := w.nearestOf(target, lacks); text != "" {
		return text
	}
	return "There is no health check that could select it."
}

func (w *assessment) nearestOf(target core.ID, lacks unmet) string {
	best, name := []string(nil), ""
	for i := range w.policies {
		missing, possible := lacks(w.policies[i].ID, target)
		if possible && len(missing) > 0 && (best == nil || len(missing) < len(best)) {
			best, name = missing, nameOf(w.policies[i].ID)
		}
	}
	if best == nil {
		return ""
	}
	return fmt.Sprintf("The nearest is %s, whose selector also requires %s.", name, strings.Join(best, " and "))
}

// explainRepair explains one repair, by its index in the cluster.
func (w *assessment) explainRepair(i int, meta *metav1.PartialObjectMetadata) RepairExplanation {
	r := &w.cluster.Repairs[i]
	e := RepairExplanation{Repair: w.repair(i)}
	target := w.targetOf(i)
	if target >= 0 {
		t := w.explainTarget(target, meta, func(core.ID, core.ID) ([]string, bool) { return nil, false })
		e.Target = &t
	}
	if target < 0 {
		e.Requests = w.objectsAbout(r.Target)
	}
	switch {
	case !r.Running():
		e.Next, e.Advice = Next{Text: "Nothing: it has ended."}, cmp.Or(adviceOnKept(e.Requests), adviceAfter(r, target >= 0))
	case target < 0:
		e.Next = w.nextOfGone(i)
	default:
		e.Next = e.Target.Next
		e.WaitsFor, e.Advice = w.waitsFor(target, e.Target)
		if e.Repair.Attempts > 0 && e.Target.Deleting == nil {
			e.Advice = "The last error says why the call was refused. Once the cause is corrected, the next call succeeds. Waiting is safe."
		}
	}
	return e
}

// adviceOnKept says what to do about objects that finalizers keep after the end of a repair. It is empty without any.
func adviceOnKept(requests []Request) string {
	if !slices.ContainsFunc(requests, func(r Request) bool { return r.KeptBy != "" }) {
		return ""
	}
	return "A remediation object is still there, since finalizers keep it. " + keptAdvice
}

const keptAdvice = "See whether its remediator runs, and remove the finalizers by hand when nothing is left for it to undo."

func adviceAfter(r *core.Repair, exists bool) string {
	destroyed := len(r.Steps) > 0 && r.Steps[0].Nature.Effect().Deletes
	switch {
	case r.Outcome == core.Succeeded && !destroyed && exists:
		return "Nothing is to be done. If the " + kindWord(r.Target) + " fails again, explain that."
	case r.Outcome == core.Succeeded:
		return "Nothing is to be done. If its replacement fails too, explain that one."
	case exists && r.Outcome == core.Recovered:
		return "Nothing was done to the " + kindWord(r.Target) + "; " + judgedNow(r)
	case exists && len(r.Tried) > 0:
		return "No step has helped; " + judgedNow(r)
	case exists:
		return "Its progress says why it ended; " + judgedNow(r)
	case r.Outcome == core.Withdrawn:
		return "Fettle knows of no replacement. See what its remediators report, and replace the " + kindWord(r.Target) + " by hand if nothing else does."
	}
	return ""
}

func judgedNow(r *core.Repair) string {
	return "explain " + kindWord(r.Target) + "/" + r.Target.Name + " says how it is judged now."
}

// waitsFor says what a running repair waits for, and what a user can do about it.
func (w *assessment) waitsFor(target int, t *ExplainedTarget) (waits []string, advice string) {
	for _, r := range w.held(target) {
		text := r.Text()
		if why, hidden := w.hidden(r); hidden {
			text = why
		}
		waits = append(waits, r.Gate.String()+": "+text)
	}
	if !w.cluster.Targets[target].Deleting {
		return waits, ""
	}
	for _, f := range t.Finalizers {
		waits = append(waits, "the removal of finalizer "+f)
	}
	kind := kindWord(w.cluster.Targets[target].ID)
	return waits, "If it takes long, look at what the owner of the finalizer reports: kubectl describe " + kind + " " + t.Name +
		". A drain that a PodDisruptionBudget blocks is the usual cause."
}
