package integration

import "testing"

// TestKubeadmControlPlane is the story of one control plane that Cluster API's own controller serves. Manifests have
// the older version, as the guide prints them, and Cluster API converts them. The steps follow the guide's example: M1
// is replaced by M1-1, and that by M1-2.
func TestKubeadmControlPlane(t *testing.T) {
	t.Parallel()
	q := newQuickstart(t)
	q.t.Run("manifests of the older version are judged", q.manifestsAreJudged)
	q.shortTimes()
	steps := []struct {
		name string
		run  func()
	}{
		{"M1 is replaced by M1-1", q.firstIsReplaced},
		{"M1-1 fails too, and retryPeriod defers its replacement", q.retryIsDeferred},
		{"the first retry replaces M1-1 by M1-2", q.firstRetry},
		{"M1-2 fails too, and maxRetry ends that", q.retriesAreExhausted},
		{"a higher maxRetry lets the second retry happen", q.maxRetryIsRaised},
		{"what fails after minHealthyPeriod begins a new count", q.newCount},
		{"quorum forbids a replacement, and no more is marked than the limit says", q.quorumForbids},
		{"all are marked, and replaced one at a time", q.oneAtATime},
	}
	for _, step := range steps {
		if !t.Run(step.name, func(t *testing.T) { q.in(t, step.run) }) {
			t.FailNow() // each begins where the previous one has ended
		}
	}
}

// manifestsAreJudged: the fields of the older version arrive in the stored one, and Fettle counts the machines.
func (q *quickstart) manifestsAreJudged(t *testing.T) {
	q.in(t, func() {
		q.wantStored("KubeadmControlPlane", q.name, "spec.remediation",
			`{"maxRetry":5,"minHealthyPeriodSeconds":7200,"retryPeriodSeconds":120}`)
		q.wantStored("MachineHealthCheck", workersCheck, "spec.remediation", `{"triggerIf":{"unhealthyLessThanOrEqualTo":"40%"}}`)
		q.wantStored("MachineHealthCheck", controlPlaneCheck, "spec.checks.unhealthyNodeConditions",
			`[{"status":"Unknown","timeoutSeconds":300,"type":"Ready"},{"status":"False","timeoutSeconds":300,"type":"Ready"}]`)
		q.wantHealthy(workersCheck, "2/2 healthy, 0 allowed") // 40 % of two are none
		q.wantHealthy(controlPlaneCheck, "3/3 healthy, 3 allowed")
		q.wantAnswer("explain machine/"+q.members()[0].Name, "healthy, no criterion is met",
			"at most 5 times (spec.remediation.maxRetry), 2m0s after the one before (spec.remediation.retryPeriodSeconds)", "2h0m0s or later")
	})
}

// firstIsReplaced: the provider has no capacity meanwhile, so M1-1 never boots.
func (q *quickstart) firstIsReplaced() {
	q.m1 = q.members()[0].Name
	q.launch("Error")
	q.breaks(q.m1)
	q.m11 = q.replacementOf(q.m1, 0)
}

func (q *quickstart) retryIsDeferred() {
	q.wantMachine(q.m11, succeeded, "False/UnhealthyMachine", "InfrastructureReady")
	q.wantMachine(q.m11, byOwner, "False/RemediationDeferred", "2m0s (RetryPeriodSeconds)")
	q.wantAnswer("explain machine/"+q.m11, "KubeadmControlPlane "+q.name+" says RemediationDeferred since",
		"it replaces "+q.m1+", whose replacement began at", "spec.remediation.retryPeriodSeconds is 2m0s", "over at")
}

func (q *quickstart) firstRetry() {
	q.strategy("maxRetry: 1, retryPeriod: 0s, minHealthyPeriod: 2h")
	q.m12 = q.replacementOf(q.m11, 1)
}

func (q *quickstart) retriesAreExhausted() {
	q.wantMachine(q.m12, succeeded, "False/UnhealthyMachine", "InfrastructureReady")
	q.wantMachine(q.m12, byOwner, "False/CannotBeRemediated", "already failed 1 times (MaxRetry)")
	q.wantAnswer("explain machine/"+q.m12, "KubeadmControlPlane "+q.name+" says CannotBeRemediated since",
		"as retry 1, and spec.remediation.maxRetry is 1", "raise spec.remediation.maxRetry")
	q.wantAnswer("status", q.m12, "CannotBeRemediated")
}

func (q *quickstart) maxRetryIsRaised() {
	q.launch("")
	q.strategy("maxRetry: 2, retryPeriod: 0s, minHealthyPeriod: 2h")
	q.m13 = q.replacementOf(q.m12, 2)
	q.wantHealthy(controlPlaneCheck, "3/3 healthy, 1 allowed")
}

// newCount: M1-3 is the last that maxRetry allows. The replacement of M1-3 shows that the count began anew.
func (q *quickstart) newCount() {
	q.strategy("maxRetry: 2, retryPeriod: 0s, minHealthyPeriod: 1s")
	q.breaks(q.m13)
	q.m14 = q.replacementOf(q.m13, 0)
	q.wantHealthy(controlPlaneCheck, "3/3 healthy, 1 allowed")
}

// quorumForbids: one member has an alarm, so no other member may go. Fettle's limit is one.
func (q *quickstart) quorumForbids() {
	alarming, other := q.others(q.m14)
	q.alarming, q.dead = alarming, other
	q.alarm(alarming, "NOSPACE")
	q.breaks(other)
	q.wantMachine(other, byOwner, "False/CannotBeRemediated", "etcd quorum loss")
	q.wantAnswer("explain machine/"+other, "KubeadmControlPlane "+q.name+" says CannotBeRemediated since", "etcd quorum loss")
	q.unwell(q.m14)
	q.wantMachine(q.m14, succeeded, "False/UnhealthyNode")
	q.wantCheck(controlPlaneCheck, "RemediationAllowed", "False/TooManyUnhealthy", "unhealthy: 2, unhealthyLessThanOrEqualTo: 1")
	q.wantMachine(q.m14, byOwner, "")
	q.wantMachine(other, byOwner, "False/CannotBeRemediated", "etcd quorum loss")
	q.wantAnswer("status", other, "CannotBeRemediated", "2 of 3 are not healthy and repairs go on only up to 1")
}

// oneAtATime: the control plane takes the dead machine first, and the other once that is replaced.
func (q *quickstart) oneAtATime() {
	q.limitIs(2)
	q.wantMachine(q.m14, byOwner, "False/WaitingForRemediation")
	q.wantAnswer("explain machine/"+q.m14, "machine "+q.dead+" has the same request and goes first")
	q.alarm(q.alarming, "")
	q.lookAgain()
	q.replacementOf(q.dead, 0)
	q.replacementOf(q.m14, 0)
	q.wantHealthy(controlPlaneCheck, "3/3 healthy, 2 allowed")
	q.wantOneAtATime()
}
