package integration

import (
	"slices"
	"strings"
)

// explanation ties differences to a row of docs/dialects/cluster-api.md with these words.
type explanation struct {
	row  string
	when func(*judgedWorld, difference) bool
}

// explain returns the first row that explains a difference, or "".
func (w *judgedWorld) explain(d difference) string {
	for _, e := range explanations() {
		if e.when(w, d) {
			return e.row
		}
	}
	return ""
}

// explanations are in the order of the page.
func explanations() []explanation {
	return slices.Concat(explanationsOfJudgement(), explanationsOfRepair(), explanationsOfTemplates(), explanationsOfSwitches())
}

func explanationsOfJudgement() []explanation {
	return []explanation{
		{
			"Its machine counts like any other, and its repair does not begin while the label is there.",
			func(w *judgedWorld, d difference) bool { return w.state(d).excluded && d.begins() && d.fettle == "" },
		},
		{
			"Neither machine is judged until one of them is gone or its `status.nodeRef` is corrected",
			func(w *judgedWorld, d difference) bool {
				if d.machine == "" {
					return w.paired(len(w.machines)-1) && d.isCount()
				}
				return w.paired(w.index(d)) && (d.isVerdict() || d.begins())
			},
		},
		{
			"Unlike today a condition that is `False` stays so.",
			func(w *judgedWorld, d difference) bool {
				return !w.now().infrastructureReady && d.isVerdict() && strings.HasPrefix(d.judge, "True") && strings.HasPrefix(d.fettle, "False")
			},
		},
		{
			"Cluster API dropped it with 1.11 while its guide kept it.",
			func(w *judgedWorld, d difference) bool {
				if d.machine == "" {
					return w.anyMachine(func(m machineState) bool { return m.failed }) && d.isCount()
				}
				return w.state(d).failed && (d.isVerdict() || d.begins())
			},
		},
		{
			"`[3-1]` is `InvalidSpec`; today it is an error in the log.",
			func(w *judgedWorld, d difference) bool {
				if w.limit != limitWrongRange {
					return false
				}
				if d.machine == "" {
					return d.isGate() && (d.fettle == "0" || strings.HasPrefix(d.fettle, "False/InvalidSpec"))
				}
				return d.isVerdict() && d.judge == w.earlier[judge][d.place]
			},
		},
	}
}

func explanationsOfRepair() []explanation {
	return []explanation{
		{
			"Only machines that a machine set or a control plane owns are marked for it.",
			func(w *judgedWorld, d difference) bool {
				return w.is(d).orphan && d.isMark() && d.fettle == ""
			},
		},
		{
			"`OwnerRemediated` is removed unless the owner has begun to replace the machine.",
			func(w *judgedWorld, d difference) bool {
				return d.isMark() && d.fettle == "" && w.says(fettle, d.machine, succeeded, "True/")
			},
		},
		{
			"`ExternallyRemediated` is removed too, which stays today.",
			func(w *judgedWorld, d difference) bool {
				return d.isCondition(externally) && d.fettle == "" && d.judge == "False/WaitingForRemediation" && w.says(fettle, d.machine, succeeded, "True/")
			},
		},
		{
			"Today's controller writes that it is unhealthy, and with a template creates an object for it.",
			func(w *judgedWorld, d difference) bool {
				return w.state(d).deleting && (d.isVerdict() || d.begins()) && d.fettle == w.earlier[fettle][d.place]
			},
		},
	}
}

func explanationsOfTemplates() []explanation {
	return []explanation{
		{
			"A machine that has an object already holds up no other.",
			func(w *judgedWorld, d difference) bool {
				return w.template == templateIsThere && (d.isVerdict() || d.begins()) && w.says(fettle, d.machine, succeeded, "False/")
			},
		},
		{
			"A healthy machine without one is marked healthy.",
			func(w *judgedWorld, d difference) bool {
				return w.template != byTheOwner && d.isVerdict() && strings.HasPrefix(d.fettle, "True") && w.fact(judge, d.machine, saysHasRequest) == ""
			},
		},
		{
			"`ExternallyRemediated` on the machine reports a template that is missing, or an object that can't be created.",
			func(w *judgedWorld, d difference) bool {
				if w.template != templateIsMissing {
					return false
				}
				return d.machine != "" && (d.isVerdict() || d.isExternal()) && w.says(fettle, d.machine, succeeded, "False/")
			},
		},
		{
			"Members of the control plane go one at a time, and only while a majority of all voting members works without this one",
			func(w *judgedWorld, d difference) bool {
				return w.template == templateIsThere && w.is(d).member && d.begins() && d.fettle == ""
			},
		},
		{
			"Today they are missing until a repair fails, and stay `False` when that is corrected.",
			func(w *judgedWorld, d difference) bool {
				return d.machine == "" && strings.HasPrefix(d.what, older+"ExternalRemediation") && w.template != byTheOwner &&
					(d.judge == "" || strings.HasPrefix(d.fettle, "True/"))
			},
		},
	}
}

func explanationsOfSwitches() []explanation {
	return []explanation{
		{
			"As on [the page on OpenShift](openshift.md#what-you-can-see). New.",
			func(w *judgedWorld, d difference) bool {
				held := w.now().checkPaused || w.template == templateIsMissing
				return d.isGate() && held && (d.what == saysRemediationsAllowed && d.fettle == "0" || strings.HasPrefix(d.fettle, "False/"))
			},
		},
		{
			"is written also while the health check is paused, can't be followed, or lacks its template; today it stays behind then.",
			func(w *judgedWorld, d difference) bool {
				apart := w.now().checkPaused || w.limit == limitWrongRange || w.template == templateIsMissing
				return d.what == saysObserved && apart && d.fettle == "yes"
			},
		},
		{
			"The counts stay right; today they freeze.",
			func(w *judgedWorld, d difference) bool {
				return w.now().checkPaused && (d.isCount() || d.isSelection()) && d.judge == w.earlier[judge][d.place]
			},
		},
		{
			"A mark is withdrawn when its machine recovers.",
			func(w *judgedWorld, d difference) bool {
				return w.now().checkPaused && (d.isVerdict() || d.begins()) && d.judge == w.earlier[judge][d.place] &&
					!strings.HasPrefix(d.fettle, "False/") && w.earlier[fettle][d.place] != ""
			},
		},
		{
			"The reason of a machine that is not healthy follows its state.",
			func(w *judgedWorld, d difference) bool {
				return w.now().checkPaused && d.isVerdict() && d.judge == w.earlier[judge][d.place] &&
					strings.HasPrefix(d.judge, "False/") && strings.HasPrefix(d.fettle, "False/")
			},
		},
		{
			"Fettle changes nothing but the condition `Paused` of its health checks.",
			func(w *judgedWorld, d difference) bool {
				return w.now().clusterPaused && w.stage > 0 && d.judge == w.earlier[judge][d.place] && d.fettle == w.earlier[fettle][d.place]
			},
		},
	}
}

func (w *judgedWorld) now() judgedStage { return w.stages[w.stage] }

// index returns the index of the machine of a difference, or -1 for the health check.
func (w *judgedWorld) index(d difference) int {
	return slices.IndexFunc(w.machines, func(m judgedMachine) bool { return m.name == d.machine })
}

// state returns the state of that machine.
func (w *judgedWorld) state(d difference) machineState {
	if i := w.index(d); i >= 0 {
		return w.now().machines[i]
	}
	return machineState{}
}

// is returns that machine.
func (w *judgedWorld) is(d difference) judgedMachine {
	if i := w.index(d); i >= 0 {
		return w.machines[i]
	}
	return judgedMachine{}
}

func (w *judgedWorld) anyMachine(has func(machineState) bool) bool {
	return slices.ContainsFunc(w.now().machines, has)
}

func (w *judgedWorld) fact(side int, machine, what string) string {
	return w.rest.last[side][place{machine, what}]
}

func (w *judgedWorld) says(side int, machine, what, begins string) bool {
	return strings.HasPrefix(w.fact(side, machine, what), begins)
}

func (m machineState) skipped() bool {
	return m.annotation == "cluster.x-k8s.io/skip-remediation" || m.annotation == "cluster.x-k8s.io/paused"
}

// The subjects of differences.
func (d difference) isVerdict() bool  { return d.isCondition(succeeded) }
func (d difference) isMark() bool     { return d.isCondition(byOwner) }
func (d difference) isExternal() bool { return d.isCondition(externally) || d.what == saysHasRequest }
func (d difference) begins() bool     { return d.isMark() || d.isExternal() }
func (d difference) isGate() bool {
	return d.machine == "" && (d.isCondition(saysAllowed) || d.what == saysRemediationsAllowed)
}

func (d difference) isCount() bool {
	return d.machine == "" && (d.what == saysCurrentHealthy || d.what == saysRemediationsAllowed)
}

func (d difference) isSelection() bool {
	return d.machine == "" && (d.what == saysExpectedMachines || d.what == saysTargets)
}

func (d difference) isCondition(kind string) bool {
	return strings.TrimPrefix(d.what, older) == kind
}
