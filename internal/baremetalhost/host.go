package baremetalhost

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/fencing"
)

// timeout is how long one operation may take.
const timeout = 15 * time.Second

// Config is where a BareMetalHost is, and how it is read and changed.
type Config struct {
	Key types.NamespacedName
	// Live reads from the API server itself, and Writer writes to it.
	Live   client.Reader
	Writer client.Writer
	Now    func() time.Time
}

// Host is the power of the host behind one BareMetalHost. It makes one operation at a time.
type Host struct {
	config Config
	// turn has room for the one operation that runs. It guards what follows.
	turn chan struct{}
	// seenOn is set if the host was seen on in a version that has Fettle's annotation, after the last command to power it off.
	seenOn bool
	// powersOn is set if the last command was to power it on.
	powersOn bool
}

// New returns a host of which nothing is known yet.
func New(config Config) *Host { return &Host{config: config, turn: make(chan struct{}, 1)} }

// Reading is one read of the power.
type Reading struct {
	fencing.Reading

	// Unproven says why a host that is reported as off is not believed. A new command is needed then, since no later read can prove it.
	Unproven Failure
}

// Find returns which BareMetalHost it is, and never fails because of its state.
func (h *Host) Find(ctx context.Context) (found Found, failure Failure) {
	failure = h.inTurn(ctx, func(ctx context.Context) (failed Failure) {
		f, failed := h.get(ctx, "")
		if !failed.Failed() {
			found = Found{Identity: f.Identity, Never: h.named(f.unsuitable())}
		}
		return failed
	})
	return found, failure
}

// Probe reads the power that Metal3 reports, and whether Fettle could command it. It changes nothing, and a remediation never relies on it.
func (h *Host) Probe(ctx context.Context) (state fencing.PowerState, failure Failure) {
	failure = h.inTurn(ctx, func(ctx context.Context) Failure {
		f, failed := h.get(ctx, "")
		if failed.Failed() {
			return failed
		}
		if failed = h.named(f.unusable()); failed.Failed() {
			return failed
		}
		state = f.power
		if _, err := h.patch(ctx, f.UID, true, client.DryRunAll); apierrors.IsForbidden(err) { // a webhook may support no dry run
			return h.notChanged(err)
		}
		return Failure{}
	})
	return state, failure
}

// Read reads the power of the host that was found. The host is off only where the change to that was seen after the last command.
func (h *Host) Read(ctx context.Context, found Identity) (Reading, Failure) {
	var r Reading
	failure := h.inTurn(ctx, func(ctx context.Context) Failure {
		r.Begun = h.config.Now()
		f, failed := h.usable(ctx, found)
		if failed.Failed() {
			h.seenOn = h.seenOn && failed.Reason == NotRead // after anything else, Metal3 may have powered the host in between
			return failed
		}
		r.State, r.Unproven = h.observe(f)
		r.Ended = h.config.Now()
		return Failure{}
	})
	if failure.Failed() {
		return Reading{}, failure
	}
	return r, Failure{}
}

// observe returns what the power of a usable BareMetalHost proves.
func (h *Host) observe(f facts) (fencing.PowerState, Failure) {
	switch {
	case f.power == fencing.IsOn:
		h.seenOn = f.commanded
		return fencing.IsOn, Failure{}
	case h.powersOn, h.seenOn && f.commanded:
		return fencing.IsOff, Failure{}
	}
	h.seenOn = false
	why := "Metal3 reports it as off, which may be older than the command, since it was not seen on after that"
	if !f.annotated {
		why = "Metal3 reports it as off, and annotation " + annotation.RebootBareMetalHost + " is not there, so Metal3 may power it on"
	}
	return fencing.PowerUnknown, h.named(Failure{Reason: OffBefore, Message: why})
}

// Off has Metal3 power the host off, and returns when the BareMetalHost says so. A host that is off already is powered on first: only a
// change proves that it is off.
func (h *Host) Off(ctx context.Context, found Identity) (time.Time, Failure) {
	return h.command(ctx, func(ctx context.Context) Failure {
		h.seenOn, h.powersOn = false, false
		f, failed := h.usable(ctx, found)
		switch {
		case failed.Failed():
			return failed
		case f.power == fencing.IsOff:
			return h.showOn(ctx, f)
		case !f.commanded:
			if f, failed = h.annotate(ctx, f.UID, true); failed.Failed() {
				return failed
			}
		}
		h.seenOn = f.commanded && f.power == fencing.IsOn && !f.unusable().Failed()
		return h.letGo(ctx, f, found)
	})
}

// showOn has Metal3 power a host on that it reports as off. It always fails, since the host can't be commanded off yet.
func (h *Host) showOn(ctx context.Context, f facts) Failure {
	off := "Metal3 reports it as off already, and that may be older than the command, so it proves nothing"
	if by := f.keptOff(); by != "" {
		return h.named(Failure{Reason: OffBefore, Message: off + "; " + by +
			", so its power-off can't be seen: end that, or see for yourself that the host is off and release its workload by hand"})
	}
	if f.annotated {
		if _, failed := h.annotate(ctx, f.UID, false); failed.Failed() {
			return failed
		}
	}
	return h.named(Failure{Reason: OffBefore, Message: off + "; it is powered off once Metal3 has powered it on"})
}

// On has Metal3 power the host on, and returns when Fettle no longer keeps it off.
func (h *Host) On(ctx context.Context, found Identity) (time.Time, Failure) {
	return h.command(ctx, func(ctx context.Context) Failure {
		h.seenOn, h.powersOn = false, true
		f, failed := h.get(ctx, found.UID)
		if f.annotated { // a read that failed has shown nothing
			f, failed = h.annotate(ctx, f.UID, false)
		}
		if failed.Failed() {
			return failed
		}
		if failed = h.taken(f, found); failed.Failed() {
			return failed
		}
		if failed = h.named(f.unusable()); failed.Failed() {
			return failed
		}
		if by := f.keptOff(); by != "" {
			return h.named(Failure{Reason: KeptOff, Message: by + "; Fettle leaves that alone: end it, so that Metal3 powers the host on"})
		}
		return Failure{}
	})
}

// Leave removes Fettle's annotation from the host that was found, whatever its state and its consumer are. If it is gone, nothing is to be done:
// another BareMetalHost of the name is left alone.
func (h *Host) Leave(ctx context.Context, found Identity) Failure {
	return h.inTurn(ctx, func(ctx context.Context) Failure {
		h.seenOn, h.powersOn = false, false
		f, failed := h.get(ctx, found.UID)
		switch {
		case failed.Reason == NotFound, failed.Reason == Replaced:
			return Failure{}
		case f.annotated: // a read that failed has shown nothing
			_, failed = h.annotate(ctx, f.UID, false)
		}
		return failed
	})
}

// command makes one operation, and returns when it had succeeded.
func (h *Host) command(ctx context.Context, do func(context.Context) Failure) (time.Time, Failure) {
	var at time.Time
	failure := h.inTurn(ctx, func(ctx context.Context) Failure {
		failed := do(ctx)
		at = h.config.Now()
		return failed
	})
	if failure.Failed() {
		return time.Time{}, failure
	}
	return at, Failure{}
}

// inTurn makes one operation when it is its turn.
func (h *Host) inTurn(ctx context.Context, do func(context.Context) Failure) Failure {
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return h.named(Failure{Reason: NotRead, Message: "another operation takes long", Interrupted: true})
	}
	defer func() { <-h.turn }()
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	failure := do(limited)
	failure.Interrupted = errors.Is(ctx.Err(), context.Canceled)
	return failure
}

// named returns a failure whose message names the BareMetalHost.
func (h *Host) named(f Failure) Failure {
	if f.Failed() {
		f.Message = "BareMetalHost " + h.config.Key.String() + ": " + f.Message
	}
	return f
}

// get reads the BareMetalHost. With a UID it must be that one (I11).
func (h *Host) get(ctx context.Context, uid types.UID) (facts, Failure) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(Kind)
	err := h.config.Live.Get(ctx, h.config.Key, u)
	switch {
	case apierrors.IsNotFound(err):
		return facts{}, h.named(Failure{Reason: NotFound, Message: "it does not exist; correct spec.bareMetalHost of the BMC"})
	case meta.IsNoMatchError(err):
		return facts{}, h.named(Failure{Reason: NotFound, Message: "this cluster does not serve " + Kind.Group + "; give the BMC an address in place of bareMetalHost"})
	case err != nil:
		return facts{}, h.named(Failure{Reason: NotRead, Message: "it could not be read " + whyFailed(err, "config/power")})
	}
	f := read(u)
	if uid != "" && f.UID != uid {
		return facts{}, h.named(Failure{Reason: Replaced, Message: fmt.Sprintf("its UID is %s, and was %s when the remediation began, so it is another host and is left alone; delete the remediation", f.UID, uid)})
	}
	return f, Failure{}
}

// usable reads the host that was found, and fails where it can't be used.
func (h *Host) usable(ctx context.Context, found Identity) (facts, Failure) {
	f, failed := h.get(ctx, found.UID)
	if failed.Failed() {
		return facts{}, failed
	}
	if failed = h.letGo(ctx, f, found); failed.Failed() {
		return facts{}, failed
	}
	return f, h.named(f.unusable())
}

// letGo removes Fettle's own annotation from a host that belongs to another consumer, or that Metal3 would reboot again and again for the
// annotation. It fails if the host is such a one.
func (h *Host) letGo(ctx context.Context, f facts, found Identity) Failure {
	failed := h.taken(f, found)
	if !failed.Failed() && f.disablePowerOff {
		failed = h.named(f.unusable())
	}
	if failed.Failed() && f.annotated {
		if _, notChanged := h.annotate(ctx, f.UID, false); notChanged.Failed() {
			return notChanged
		}
	}
	return failed
}

// taken fails if a host has another consumer than when it was found. It is the host of another node then, and its power says nothing about
// this one.
func (h *Host) taken(f facts, found Identity) Failure {
	if f.Consumer == found.Consumer {
		return Failure{}
	}
	return h.named(Failure{Reason: Taken, Message: fmt.Sprintf("its spec.consumerRef is %q, and was %q when the remediation began, so it belongs to another consumer and is left alone; "+
		"see for yourself that the node has stopped, and release its workload by hand", shown(f.Consumer), shown(found.Consumer))})
}

// shown returns the beginning of the name of a consumer.
func shown(name string) string { return name[:min(len(name), 3*maxShown)] }

// annotate sets or removes Fettle's own annotation, and returns what the BareMetalHost is then.
func (h *Host) annotate(ctx context.Context, uid types.UID, set bool) (facts, Failure) {
	f, err := h.patch(ctx, uid, set)
	if err != nil {
		return facts{}, h.notChanged(err)
	}
	return f, Failure{}
}

func (h *Host) notChanged(err error) Failure {
	return h.named(Failure{Reason: NotChanged, Message: "its annotation " + annotation.RebootBareMetalHost + " could not be changed " + whyFailed(err, "config/metal3")})
}

// whyFailed returns why the API server failed a call, to append to a message. It leaves out the text of the error, and names what grants the
// right where that is missing.
func whyFailed(err error, grants string) string {
	switch reason := apierrors.ReasonForError(err); {
	case reason == "":
		return "(the API server gave no answer); it is tried again"
	case apierrors.IsForbidden(err):
		return "(" + string(reason) + "); kubectl apply -k " + grants + " grants the right"
	default:
		return "(" + string(reason) + "); it is tried again"
	}
}

// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;patch

// patch sets or removes Fettle's own annotation. The UID is the precondition.
func (h *Host) patch(ctx context.Context, uid types.UID, set bool, options ...client.PatchOption) (facts, error) {
	value := "null"
	if set {
		value = strconv.Quote(hard)
	}
	body := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%s}}}`, uid, annotation.RebootBareMetalHost, value)
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(Kind)
	u.SetNamespace(h.config.Key.Namespace)
	u.SetName(h.config.Key.Name)
	if err := h.config.Writer.Patch(ctx, u, client.RawPatch(types.MergePatchType, body), options...); err != nil {
		return facts{}, fmt.Errorf("changing an annotation: %w", err)
	}
	return read(u), nil
}
