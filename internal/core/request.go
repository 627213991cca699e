package core

import (
	"slices"
	"time"
)

// Request is what a remediator was asked for, as the cluster shows it, and how that stands.
type Request struct {
	// ID is the object by which it is asked.
	ID ID
	// APIVersion is that of the object.
	APIVersion string
	// Remedy made it, from Template, for a step of that template.
	Remedy   string
	Template Reference
	// Target is what it is about. The UID is empty where the request doesn't tell it.
	Target ID
	// Policy asked for it. The UID is empty where the request doesn't tell it.
	Policy  ID
	Created time.Time
	// Stopped is when the remediator was told that its time is over; zero while it wasn't.
	Stopped time.Time
	// Processing and Succeeded are the remediator's own word.
	Processing, Succeeded Tri
	// SucceededSince is when Succeeded became what it is, by the remediator's own word; zero when it does not say so.
	SucceededSince time.Time
	// Phase is what the remediator says of itself in a word, where it has one; it is for people.
	Phase string
	// Replaces is set when the remediator expects the target's node to be gone for good.
	Replaces bool
	// Answers is set when whoever was asked is expected to say how it stands, and Answer is what that is, empty
	// while there is none.
	Answers bool
	Answer  string
	// Own is set when Fettle made the request. Only then Fettle tells the remediator to stop, and withdraws it (I10).
	Own bool
	// TargetHealthy is set when it is withdrawn because the target is healthy, as far as all policies go that act.
	TargetHealthy bool
	// Leaving is set once it has been withdrawn and isn't gone yet. LeavingSince is when that was, and KeptBy names the
	// finalizers that keep it, as far as the cluster shows that.
	Leaving      bool
	LeavingSince time.Time
	KeptBy       string
}

// about tells whether the request is about a target.
func (r *Request) about(t *ID) bool {
	return r.Target.Kind == t.Kind && r.Target.Namespace == t.Namespace && r.Target.Name == t.Name &&
		(r.Target.UID == "" || r.Target.UID == t.UID)
}

// isFor tells whether the request is that of a step.
func (r *Request) isFor(s *Step) bool { return r.Remedy == s.Remedy && r.Template == s.Template }

// stepIn is the place in a ladder of the step that the request is for, -1 when it is for none.
func (r *Request) stepIn(steps []Step) int {
	return slices.IndexFunc(steps, func(s Step) bool { return r.isFor(&s) })
}

// RequestedBy reports whether a policy asked for the request.
func (r *Request) RequestedBy(p *ID) bool {
	return r.Policy.Kind == p.Kind && r.Policy.Namespace == p.Namespace && r.Policy.Name == p.Name &&
		(r.Policy.UID == "" || r.Policy.UID == p.UID)
}
