package core

import (
	"slices"
	"time"
)

// Request is a remediation request as the cluster shows it, and its state.
type Request struct {
	// ID identifies the request's own object.
	ID ID
	// APIVersion is that of the object.
	APIVersion string
	// Remedy made it, from Template, for a step of that template.
	Remedy   string
	Template Reference
	// Target is the target of the repair. The UID is empty where the request lacks it.
	Target ID
	// Policy made it. The UID is empty where the request lacks it.
	Policy  ID
	Created time.Time
	// CreatedReported is Created as the object has it, where that is in the future and Created was replaced; else zero.
	CreatedReported time.Time
	// Stopped is when Fettle told the remediator that its time is over; zero while it hasn't.
	Stopped time.Time
	// Processing and Succeeded are as the remediator reports them.
	Processing, Succeeded Tri
	// SucceededSince is when Succeeded took its value, as the remediator reports it; zero when it does not.
	SucceededSince time.Time
	// Phase is the remediator's own word for its state, where it has one; it is for users.
	Phase string
	// Evidence is how the remediator has fenced the target's node, as far as it has. Only users read it.
	Evidence Evidence
	// Replaces is set when the remediator expects the target's node to be gone for good.
	Replaces bool
	// Answers is set when the remediator or owner is expected to answer. Answer is its answer, empty while there is
	// none.
	Answers bool
	Answer  string
	// Own is set when Fettle made the request. Fettle stops and withdraws no other request (I10).
	Own bool
	// TargetHealthy is set when it is withdrawn because the target is healthy, as far as all policies go that act.
	TargetHealthy bool
	// OnlyAsReported is set when its withdrawal holds only while its remediator reports Succeeded and Replaces as they are here.
	OnlyAsReported bool
	// Leaving is set once it has been withdrawn and isn't gone yet. LeavingSince is when that was. KeptBy names the
	// finalizers that keep it, as far as the cluster shows that.
	Leaving      bool
	LeavingSince time.Time
	KeptBy       string
}

// about reports whether the request is about a target.
func (r *Request) about(t *ID) bool {
	return r.Target.Kind == t.Kind && r.Target.Namespace == t.Namespace && r.Target.Name == t.Name &&
		(r.Target.UID == "" || r.Target.UID == t.UID)
}

// isFor reports whether the request is that of a step.
func (r *Request) isFor(s *Step) bool { return r.Remedy == s.Remedy && r.Template == s.Template }

// stepIn returns the index of the step that the request is for, or -1.
func (r *Request) stepIn(steps []Step) int {
	return slices.IndexFunc(steps, func(s Step) bool { return r.isFor(&s) })
}

// RequestedBy reports whether a policy made the request.
func (r *Request) RequestedBy(p *ID) bool {
	return r.Policy.Kind == p.Kind && r.Policy.Namespace == p.Namespace && r.Policy.Name == p.Name &&
		(r.Policy.UID == "" || r.Policy.UID == p.UID)
}

// stuckAfter is how long a request that was withdrawn may be on its way out. Remediators undo what they did meanwhile.
const stuckAfter = 10 * time.Minute

// stuckText returns what to do about a request that does not go away.
func (r *Request) stuckText() string {
	return r.ID.String() + " was withdrawn at " + stamp(r.LeavingSince) + " and is still there, since these finalizers keep it: " + r.KeptBy +
		"; see whether its remediator runs, and remove the finalizers by hand when nothing is left for it to undo"
}

// stuck reports whether a request has been on its way out for long.
func (r *Request) stuck(now time.Time) bool {
	return r.Own && r.Leaving && r.KeptBy != "" && !r.LeavingSince.IsZero() && !now.Before(r.LeavingSince.Add(stuckAfter))
}

// mayBeRequestedBy reports whether a policy made the request. Where the request names no policy, it reports whether the policy would
// make the same.
func (r *Request) mayBeRequestedBy(p *Policy) bool {
	return r.RequestedBy(&p.ID) || (r.Policy == (ID{}) && slices.ContainsFunc(p.Steps, func(s Step) bool { return r.isFor(&s) }))
}
