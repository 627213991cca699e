package baremetalhost_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-io/fettle/internal/baremetalhost"
	"github.com/fettle-io/fettle/internal/fencing"
)

// unusable are the states of a BareMetalHost in which its power proves nothing, with a part of what is said about each.
var unusable = map[string]struct {
	change func(map[string]any)
	want   baremetalhost.Reason
	says   string
}{
	"it is being deleted":            {set("2026-01-02T03:04:05Z", "metadata", "deletionTimestamp"), baremetalhost.Unsuitable, "deleted"},
	"it is paused":                   {annotated(paused, "metal3.io/capm3"), baremetalhost.Paused, "paused"},
	"it is paused without a value":   {annotated(paused, ""), baremetalhost.Paused, "paused"},
	"it is detached":                 {annotated("baremetalhost.metal3.io/detached", ""), baremetalhost.Detached, "detached"},
	"it is still detached":           {set("detached", "status", "operationalStatus"), baremetalhost.Detached, "detached"},
	"an error":                       {set("power management error", "status", "errorType"), baremetalhost.InError, `"power management error" (status.errorType)`},
	"an error that says much":        {set(strings.Repeat("x", 65), "status", "errorType"), baremetalhost.InError, `error "` + strings.Repeat("x", 64) + `"`},
	"the status is error":            {set("error", "status", "operationalStatus"), baremetalhost.InError, `is "error" and must be OK`},
	"it is serviced":                 {set("servicing", "status", "operationalStatus"), baremetalhost.InError, "servicing"},
	"it has no status yet":           {unset("status"), baremetalhost.InError, `""`},
	"its status is no text":          {set(true, "status", "operationalStatus"), baremetalhost.InError, `""`},
	"Metal3 may not power it off":    {set(true, "spec", "disablePowerOff"), baremetalhost.Unsuitable, "disablePowerOff"},
	"its BMC does not answer Metal3": {conditions("Manageable", "False", "PowerFailure"), baremetalhost.InError, `condition Manageable is False ("PowerFailure")`},
	"the same, without a reason":     {conditions("Manageable", "False", ""), baremetalhost.InError, `("no reason")`},
	"it is not provisioned":          {set("available", "status", "provisioning", "state"), baremetalhost.Unsuitable, `"available"`},
	"it has no power":                {unset("status", "poweredOn"), baremetalhost.Unsuitable, "poweredOn"},
	"its power is no truth value":    {set("false", "status", "poweredOn"), baremetalhost.Unsuitable, "poweredOn"},
	"paused, and in error besides":   {both(annotated(paused, ""), set("x", "status", "errorType")), baremetalhost.Paused, "paused"},
	"detached, and in error besides": {both(set("detached", "status", "operationalStatus"), set("x", "status", "errorType")), baremetalhost.Detached, "detached"},
}

// TestUnusable: where Metal3 leaves a host alone or reports an error, nothing is read or commanded, and the message says why.
func TestUnusable(t *testing.T) {
	t.Parallel()
	for name, c := range unusable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for what, do := range map[string]func(*baremetalhost.Host) baremetalhost.Failure{
				"a read":        func(h *baremetalhost.Host) baremetalhost.Failure { _, f := h.Read(t.Context(), first); return f },
				"a probe":       func(h *baremetalhost.Host) baremetalhost.Failure { _, f := h.Probe(t.Context()); return f },
				"a command off": func(h *baremetalhost.Host) baremetalhost.Failure { _, f := h.Off(t.Context(), first); return f },
				"a command on":  func(h *baremetalhost.Host) baremetalhost.Failure { _, f := h.On(t.Context(), first); return f },
			} {
				a := newAPI(c.change)
				got := do(a.host())
				wantFailure(t, got, c.want)
				if !strings.HasPrefix(got.Message, "BareMetalHost metal3/worker-1: ") || !strings.Contains(got.Message, c.says) {
					t.Errorf("%s says %q, want %q", what, got.Message, c.says)
				}
				if a.patches != nil {
					t.Errorf("%s changed it by %v", what, a.patches)
				}
			}
			_, failure := baremetalhost.Judge(&unstructured.Unstructured{Object: newAPI(c.change).object})
			wantFailure(t, failure, c.want)
		})
	}
}

// TestJudge: a usable BareMetalHost reports its power.
func TestJudge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(map[string]any)
		want   fencing.PowerState
	}{
		"on":                   {set("externally provisioned", "status", "provisioning", "state"), fencing.IsOn},
		"off":                  {powered(false), fencing.IsOff},
		"its BMC answers":      {conditions("Manageable", "True", "Manageable"), fencing.IsOn},
		"not known whether":    {conditions("Manageable", "Unknown", "x"), fencing.IsOn},
		"another condition":    {conditions("Healthy", "False", "x"), fencing.IsOn},
		"a condition is none":  {set([]any{"x", map[string]any{"type": true, "status": "False"}}, "status", "conditions"), fencing.IsOn},
		"conditions are a map": {set(map[string]any{"type": "Manageable", "status": "False"}, "status", "conditions"), fencing.IsOn},
	} {
		state, failure := baremetalhost.Judge(&unstructured.Unstructured{Object: newAPI(c.change).object})
		wantFailure(t, failure, "")
		if state != c.want {
			t.Errorf("%s: the power is %v, want %v", name, state, c.want)
		}
	}
}

// step is one thing that happens to a host. Fettle's own steps have what is wanted of them.
type step struct {
	others func(map[string]any)
	do     string // off, on, read or restart
	want   baremetalhost.Reason
	state  fencing.PowerState
	// unproven is set if a read says that a new command is needed.
	unproven bool
	says     string
}

func happens(changes ...func(map[string]any)) step { return step{others: both(changes...)} }

var (
	restarts  = step{do: "restart"}
	commands  = step{do: "off"}
	powersOn  = step{do: "on"}
	leaves    = step{do: "leave"}
	readsOn   = step{do: "read", state: fencing.IsOn}
	readsOff  = step{do: "read", state: fencing.IsOff}
	unbelieve = step{do: "read", unproven: true, says: "may be older"}
	uncommand = step{do: "read", unproven: true, says: "is not there"}
	turnsOff  = happens(powered(false))
	turnsOn   = happens(powered(true))
)

func failsOff(why baremetalhost.Reason, says string) step {
	return step{do: "off", want: why, says: says}
}
func failsOn(why baremetalhost.Reason, says string) step {
	return step{do: "on", want: why, says: says}
}
func failsRead(why baremetalhost.Reason) step { return step{do: "read", want: why} }

// TestEvidence: a host is off only where the change to that was seen after the own command.
func TestEvidence(t *testing.T) {
	t.Parallel()
	replaced := happens(set("uid-2", "metadata", "uid"))
	cases := map[string]struct {
		before func(map[string]any)
		steps  []step
		// annotation is the value of the own annotation at the end.
		annotation string
	}{
		"a power cycle":                             {nil, []step{commands, readsOn, turnsOff, readsOff, readsOff, powersOn, readsOff, turnsOn, readsOn}, ""},
		"off before the first read":                 {nil, []step{commands, turnsOff, readsOff}, hard},
		"a lag":                                     {nil, []step{commands, readsOn, readsOn, readsOn, turnsOff, readsOff}, hard},
		"powered on by others and off again":        {nil, []step{commands, turnsOff, readsOff, turnsOn, readsOn, turnsOff, readsOff}, hard},
		"without a command":                         {powered(false), []step{uncommand, uncommand}, ""},
		"without a command, on before":              {nil, []step{readsOn, turnsOff, uncommand}, ""},
		"off already, and it is powered on first":   {powered(false), []step{failsOff(baremetalhost.OffBefore, "once Metal3 has powered it on"), turnsOn, commands, turnsOff, readsOff}, hard},
		"off already, and kept off by its owner":    {both(powered(false), set(false, "spec", "online")), []step{failsOff(baremetalhost.OffBefore, "spec.online is not true"), uncommand}, ""},
		"off already, and online is no truth value": {both(powered(false), set("true", "spec", "online")), []step{failsOff(baremetalhost.OffBefore, "spec.online is not true")}, ""},
		"off already, and kept off by others":       {both(powered(false), annotated(others, hard)), []step{failsOff(baremetalhost.OffBefore, others), turnsOn, commands}, hard},
		"off already, after a reboot by others":     {both(powered(false), annotated("reboot.metal3.io", "")), []step{failsOff(baremetalhost.OffBefore, "once Metal3 has powered it on")}, ""},
		"kept off by an earlier process and others": {both(powered(false), annotated(own, hard), annotated(others, hard)), []step{failsOff(baremetalhost.OffBefore, others)}, hard},
		"a restart before the host is off":          {nil, []step{commands, restarts, commands, turnsOff, readsOff}, hard},
		"a restart after the host is off":           {nil, []step{commands, turnsOff, readsOff, restarts, unbelieve, failsOff(baremetalhost.OffBefore, "powered it on"), turnsOn, commands, turnsOff, readsOff}, hard},
		"a restart, and the host is on meanwhile":   {nil, []step{commands, turnsOff, restarts, turnsOn, readsOn, turnsOff, readsOff}, hard},
		"a restart while it is powered on":          {both(powered(false), annotated(own, hard)), []step{powersOn, readsOff, turnsOn, readsOn}, ""},
		"the annotation is removed":                 {nil, []step{commands, happens(unset("metadata", "annotations", own)), turnsOff, uncommand}, ""},
		"the annotation is removed while off":       {nil, []step{commands, turnsOff, readsOff, happens(unset("metadata", "annotations", own)), uncommand}, ""},
		"the annotation is removed while on, and there again": {
			nil, []step{commands, happens(unset("metadata", "annotations", own)), readsOn, happens(annotated(own, hard)), turnsOff, unbelieve}, hard,
		},
		"the annotation has another value":     {annotated(own, `{"mode":"soft"}`), []step{commands, turnsOff, readsOff}, hard},
		"its value is changed":                 {nil, []step{commands, happens(annotated(own, "soft")), turnsOff, unbelieve}, "soft"},
		"its value is changed for a while":     {nil, []step{commands, happens(annotated(own, "soft")), turnsOff, unbelieve, happens(annotated(own, hard)), unbelieve}, hard},
		"it is removed for a while":            {nil, []step{commands, turnsOff, readsOff, happens(unset("metadata", "annotations", own)), uncommand, happens(annotated(own, hard)), unbelieve}, hard},
		"another value is removed":             {annotated(own, "soft"), []step{powersOn}, ""},
		"another value of a host that is off":  {both(powered(false), annotated(own, "soft")), []step{failsOff(baremetalhost.OffBefore, "powered it on")}, ""},
		"paused after the command":             {nil, []step{commands, happens(annotated(paused, "")), turnsOff, failsRead(baremetalhost.Paused), happens(unset("metadata", "annotations", paused)), unbelieve}, hard},
		"paused while off":                     {nil, []step{commands, turnsOff, readsOff, happens(annotated(paused, "")), failsRead(baremetalhost.Paused), happens(unset("metadata", "annotations", paused)), unbelieve}, hard},
		"paused, and powered on":               {annotated(own, hard), []step{happens(annotated(paused, "")), failsOn(baremetalhost.Paused, "paused")}, ""},
		"replaced after the command":           {nil, []step{commands, replaced, turnsOff, failsRead(baremetalhost.Replaced)}, hard},
		"replaced, and commanded off":          {nil, []step{replaced, failsOff(baremetalhost.Replaced, "uid-2, and was uid-1")}, ""},
		"replaced, and powered on":             {annotated(own, hard), []step{replaced, failsOn(baremetalhost.Replaced, "left alone")}, hard},
		"powered on while others keep it off":  {both(annotated(own, hard), annotated(others, hard)), []step{failsOn(baremetalhost.KeptOff, others), happens(unset("metadata", "annotations", others)), powersOn}, ""},
		"powered on while its owner keeps off": {both(annotated(own, hard), set(false, "spec", "online")), []step{failsOn(baremetalhost.KeptOff, "spec.online")}, ""},
		"powered on during a reboot by others": {annotated("reboot.metal3.io", ""), []step{powersOn}, ""},
		"it is left while off":                 {nil, []step{commands, turnsOff, readsOff, leaves, happens(annotated(own, hard)), unbelieve}, hard},
		"it is left while it is powered on":    {both(powered(false), annotated(own, hard)), []step{powersOn, readsOff, leaves, uncommand}, ""},
		"taken by another consumer":            {nil, []step{commands, happens(consumed("claim-2")), failsRead(baremetalhost.Taken), happens(unconsumed, powered(false)), uncommand}, ""},
		"taken while off":                      {nil, []step{commands, turnsOff, readsOff, happens(consumed("claim-2")), failsRead(baremetalhost.Taken), happens(unconsumed, annotated(own, hard)), unbelieve}, hard},
		"taken, and commanded off":             {nil, []step{happens(consumed("claim-2")), failsOff(baremetalhost.Taken, "claim-2"), happens(unconsumed), commands}, hard},
		"taken while kept off by Fettle":       {annotated(own, hard), []step{happens(consumed("claim-2")), failsOff(baremetalhost.Taken, `its spec.consumerRef is "HostClaim.metal3.io ns/claim-2", and was "" when`)}, ""},
		"taken, and not to be powered off":     {annotated(own, hard), []step{happens(consumed("claim-2"), set(true, "spec", "disablePowerOff")), failsOff(baremetalhost.Taken, "claim-2")}, ""},
		"taken by one with a long name":        {nil, []step{happens(consumed(strings.Repeat("x", 300))), failsOff(baremetalhost.Taken, `"HostClaim.metal3.io ns/`+strings.Repeat("x", 192-len("HostClaim.metal3.io ns/"))+`"`)}, ""},
		"taken, and powered on":                {annotated(own, hard), []step{happens(consumed("claim-2")), failsOn(baremetalhost.Taken, "belongs to another consumer")}, ""},
		"taken, and left":                      {annotated(own, hard), []step{happens(consumed("claim-2")), leaves}, ""},
		"the command on ends the evidence":     {nil, []step{commands, powersOn, happens(annotated(own, hard)), turnsOff, failsOff(baremetalhost.OffBefore, ""), uncommand}, ""},
		"it may not be powered off any more":   {nil, []step{commands, happens(set(true, "spec", "disablePowerOff")), failsRead(baremetalhost.Unsuitable), happens(unset("spec", "disablePowerOff"), powered(false)), uncommand}, ""},
		"it may not, and is commanded again":   {annotated(own, "soft"), []step{happens(set(true, "spec", "disablePowerOff")), failsOff(baremetalhost.Unsuitable, "disablePowerOff")}, ""},
		"a failed command ends the evidence":   {nil, []step{commands, happens(annotated(paused, "")), failsOff(baremetalhost.Paused, ""), happens(unset("metadata", "annotations", paused)), turnsOff, unbelieve}, hard},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI()
			if c.before != nil {
				a.change(c.before)
			}
			h := a.host()
			for i, s := range c.steps {
				h = s.run(t, i, a, h)
			}
			if got := a.annotation(own); got != c.annotation {
				t.Errorf("the annotation is %q in the end, want %q", got, c.annotation)
			}
			for _, foreign := range []string{others, "reboot.metal3.io"} {
				if slices.ContainsFunc(a.patches, func(body string) bool { return strings.Contains(body, `"`+foreign+`"`) }) {
					t.Errorf("annotation %s of others was changed: %v", foreign, a.patches)
				}
			}
		})
	}
}

func (s step) run(t *testing.T, i int, a *api, h *baremetalhost.Host) *baremetalhost.Host {
	t.Helper()
	var failure baremetalhost.Failure
	switch s.do {
	case "":
		a.change(s.others)
		return h
	case "restart":
		return a.host()
	case "off", "on":
		command := h.Off
		if s.do == "on" {
			command = h.On
		}
		at, failed := command(t.Context(), first)
		failure = failed
		if at.IsZero() != failure.Failed() {
			t.Errorf("step %d: the time of the command is %v, failure %q", i, at, failure.Reason)
		}
	case "leave":
		failure = h.Leave(t.Context(), first)
	case "read":
		r, failed := h.Read(t.Context(), first)
		failure = failed
		if r.State != s.state || r.Unproven.Failed() != s.unproven {
			t.Errorf("step %d: read %v, want %v, unproven %t", i, r, s.state, s.unproven)
		}
		if !failure.Failed() && (r.Begun.IsZero() || !r.Begun.Before(r.Ended)) || failure.Failed() && r != (baremetalhost.Reading{}) {
			t.Errorf("step %d: a reading from %v to %v, failure %q", i, r.Begun, r.Ended, failure.Reason)
		}
		if s.unproven && (r.Unproven.Reason != baremetalhost.OffBefore || !strings.Contains(r.Unproven.Message, s.says)) {
			t.Errorf("step %d: it is unproven since %q, want %q", i, r.Unproven.Message, s.says)
		}
	}
	if failure.Reason != s.want || s.do != "read" && !strings.Contains(failure.Message, s.says) {
		t.Errorf("step %d (%s): failure %q (%s), want %q (%s)", i, s.do, failure.Reason, failure.Message, s.want, s.says)
	}
	return h
}

// TestAnnotationThatStays: a host that Metal3 would reboot again and again, and whose annotation can't be removed, says so.
func TestAnnotationThatStays(t *testing.T) {
	t.Parallel()
	a := newAPI(annotated(own, hard), set(true, "spec", "disablePowerOff"))
	a.patchFails = apierrors.NewInternalError(errors.New("x"))
	_, failure := a.host().Read(t.Context(), first)
	wantFailure(t, failure, baremetalhost.NotChanged)
}

// TestNever: a host that Metal3 doesn't power by annotations is told from a host that is only unusable for now.
func TestNever(t *testing.T) {
	t.Parallel()
	never := map[string]bool{"it is being deleted": true, "Metal3 may not power it off": true, "it is not provisioned": true}
	for name, c := range unusable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, failure := newAPI(c.change).host().Find(t.Context())
			wantFailure(t, failure, "")
			if found.Never.Failed() != never[name] {
				t.Fatalf("it says %+v", found.Never)
			}
			if says := found.Never.Message; never[name] && (!strings.HasPrefix(says, "BareMetalHost metal3/worker-1: ") || !strings.Contains(says, c.says)) {
				t.Errorf("it says %q, want %q", says, c.says)
			}
		})
	}
	for _, state := range []string{"externally provisioned", ""} {
		found, _ := newAPI(set(state, "status", "provisioning", "state")).host().Find(t.Context())
		wantFailure(t, found.Never, "")
	}
	found, _ := newAPI(annotated(paused, ""), set(true, "spec", "disablePowerOff")).host().Find(t.Context())
	wantFailure(t, found.Never, baremetalhost.Unsuitable)
}

// TestLeave: Fettle's annotation is removed from a host in any state, and nothing of another host is changed.
func TestLeave(t *testing.T) {
	t.Parallel()
	states := map[string]func(map[string]any){"it is usable": unset("metadata", "nothing"), "it is another one": set("uid-2", "metadata", "uid")}
	for name, c := range unusable {
		states[name] = c.change
	}
	for name, change := range states {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, value := range []string{hard, ""} {
				a := newAPI(annotated(own, value), annotated(others, hard), change)
				wantFailure(t, a.host().Leave(t.Context(), first), "")
				_, stays, _ := unstructured.NestedString(a.object, "metadata", "annotations", own)
				if replaced := name == "it is another one"; stays != replaced || (a.patches == nil) != replaced || a.annotation(others) != hard {
					t.Errorf("value %q stays: %t, after %v", value, stays, a.patches)
				}
			}
		})
	}
	a := newAPI()
	wantFailure(t, a.host().Leave(t.Context(), first), "")
	if a.patches != nil {
		t.Errorf("without the annotation it is changed by %v", a.patches)
	}
	a.object = nil
	wantFailure(t, a.host().Leave(t.Context(), first), "")
	a = newAPI(annotated(own, hard))
	a.readFails = errors.New("x")
	wantFailure(t, a.host().Leave(t.Context(), first), baremetalhost.NotRead)
	a.readFails, a.patchFails = nil, apierrors.NewInternalError(errors.New("x"))
	wantFailure(t, a.host().Leave(t.Context(), first), baremetalhost.NotChanged)
}

// TestConsumer: a consumer is told from each other one, and not from itself in another version of its kind.
func TestConsumer(t *testing.T) {
	t.Parallel()
	reference := map[string]any{"apiVersion": "metal3.io/v1alpha1", "kind": "HostClaim", "namespace": "ns", "name": "claim", "uid": "u"}
	find := func(change func(map[string]any)) string {
		found, failure := newAPI(change).host().Find(t.Context())
		wantFailure(t, failure, "")
		return found.Consumer
	}
	with := func(field string, value any) func(map[string]any) {
		changed := maps.Clone(reference)
		changed[field] = value
		return set(changed, "spec", "consumerRef")
	}
	original := find(set(reference, "spec", "consumerRef"))
	if original != "HostClaim.metal3.io ns/claim u" {
		t.Errorf("it is %q", original)
	}
	for field, same := range map[string]bool{"apiVersion": true, "resourceVersion": true, "kind": false, "namespace": false, "name": false, "uid": false} {
		value := "other"
		if field == "apiVersion" {
			value = "metal3.io/v1beta1"
		}
		if got := find(with(field, value)); (got == original) != same {
			t.Errorf("with another %s it is %q", field, got)
		}
	}
	if got := find(with("apiVersion", "example.org/v1")); got == original {
		t.Errorf("of another group it is %q", got)
	}
	long := find(with("name", strings.Repeat("x", 600)))
	if longer := find(with("name", strings.Repeat("x", 601))); long == longer || len(long) > 512 || len(longer) > 512 {
		t.Errorf("long ones are %q and %q", long, longer)
	}
	room := 512 - len("HostClaim.metal3.io ns/ u")
	if fits := find(with("name", strings.Repeat("x", room))); !strings.HasPrefix(fits, "HostClaim") || len(fits) != 512 {
		t.Errorf("the longest name that fits is %q", fits)
	}
	if hashed := find(with("name", strings.Repeat("x", room+1))); !strings.HasPrefix(hashed, "sha256:") {
		t.Errorf("the shortest name that doesn't fit is %q", hashed)
	}
	for field, value := range reference {
		if got := find(set(map[string]any{field: value}, "spec", "consumerRef")); got == "" {
			t.Errorf("a consumer that has only its %s is none", field)
		}
	}
	for _, none := range []func(map[string]any){unset("spec", "consumerRef"), set("text", "spec", "consumerRef"), set(map[string]any{}, "spec", "consumerRef")} {
		if got := find(none); got != "" {
			t.Errorf("none is %q", got)
		}
	}
}

// TestRefusedForAWhile: a right is named only where it is missing.
func TestRefusedForAWhile(t *testing.T) {
	t.Parallel()
	a := newAPI()
	a.patchFails = apierrors.NewTooManyRequestsError("wait")
	_, failure := a.host().Off(t.Context(), first)
	wantFailure(t, failure, baremetalhost.NotChanged)
	if !strings.HasSuffix(failure.Message, own+" could not be changed (TooManyRequests); it is tried again") {
		t.Errorf("it says %q", failure.Message)
	}
}

// TestErrors: a refusal of the API server has a reason, and nothing is believed or changed.
func TestErrors(t *testing.T) {
	t.Parallel()
	denied := apierrors.NewForbidden(resource, "worker-1", errors.New("secret text"))
	for name, c := range map[string]struct {
		change func(*api)
		read   baremetalhost.Reason
		off    baremetalhost.Reason
		says   string
	}{
		"it may not be read":    {func(a *api) { a.readFails = denied }, baremetalhost.NotRead, baremetalhost.NotRead, "(Forbidden); kubectl apply -k config/power"},
		"it gave no answer":     {func(a *api) { a.readFails = errors.New("secret text") }, baremetalhost.NotRead, baremetalhost.NotRead, "it could not be read (the API server gave no answer); it is tried again"},
		"it does not exist":     {func(a *api) { a.object = nil }, baremetalhost.NotFound, baremetalhost.NotFound, "does not exist"},
		"there is no such kind": {func(a *api) { a.readFails = noSuchKind() }, baremetalhost.NotFound, baremetalhost.NotFound, "does not serve metal3.io"},
		"it may not be changed": {func(a *api) { a.patchFails = denied }, "", baremetalhost.NotChanged, own + " could not be changed (Forbidden); kubectl apply -k config/metal3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI()
			c.change(a)
			h := a.host()
			_, failure := h.Read(t.Context(), first)
			wantFailure(t, failure, c.read)
			found, failure := h.Find(t.Context())
			wantFailure(t, failure, c.read)
			if failure.Failed() != (found == baremetalhost.Found{}) {
				t.Errorf("found %+v", found)
			}
			_, failure = h.Probe(t.Context())
			wantFailure(t, failure, c.off)
			_, failure = h.Off(t.Context(), first)
			wantFailure(t, failure, c.off)
			if !strings.Contains(failure.Message, c.says) || strings.Contains(failure.Message, "secret text") {
				t.Errorf("it says %q, want %q", failure.Message, c.says)
			}
		})
	}
}

func (a *api) within(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

// TestFailedChanges: a command whose write fails has failed, whatever it was about.
func TestFailedChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before func(map[string]any)
		do     func(context.Context, *baremetalhost.Host) baremetalhost.Failure
	}{
		"the annotation is not removed to power it on": {annotated(own, hard), func(ctx context.Context, h *baremetalhost.Host) baremetalhost.Failure {
			_, f := h.On(ctx, first)
			return f
		}},
		"the annotation is not removed to show it on": {both(annotated(own, hard), powered(false)), func(ctx context.Context, h *baremetalhost.Host) baremetalhost.Failure {
			_, f := h.Off(ctx, first)
			return f
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI(c.before)
			a.patchFails = apierrors.NewInternalError(errors.New("x"))
			wantFailure(t, c.do(t.Context(), a.host()), baremetalhost.NotChanged)
		})
	}
}

// TestAFailedReadKeepsTheEvidence: an API server that doesn't answer once changes nothing about what was seen.
func TestAFailedReadKeepsTheEvidence(t *testing.T) {
	t.Parallel()
	a := newAPI()
	h := a.host()
	if _, failure := h.Off(t.Context(), first); failure.Failed() {
		t.Fatal(failure)
	}
	a.within(func() { a.readFails = apierrors.NewInternalError(errors.New("x")) })
	_, failure := h.Read(t.Context(), first)
	wantFailure(t, failure, baremetalhost.NotRead)
	a.within(func() { a.readFails = nil })
	a.change(powered(false))
	if r, _ := h.Read(t.Context(), first); r.State != fencing.IsOff {
		t.Errorf("read %v", r)
	}
}

// TestAFailedReadIsNoEvidence, also where the command of an earlier process stands.
func TestAFailedReadIsNoEvidence(t *testing.T) {
	t.Parallel()
	a := newAPI(annotated(own, hard), powered(false))
	h := a.host()
	a.within(func() { a.readFails = apierrors.NewInternalError(errors.New("x")) })
	_, failure := h.Read(t.Context(), first)
	wantFailure(t, failure, baremetalhost.NotRead)
	a.within(func() { a.readFails = nil })
	if r, _ := h.Read(t.Context(), first); r.State != fencing.PowerUnknown {
		t.Errorf("read %v", r)
	}
}

// TestADroppedChange: a webhook drops the annotation, and others set it later. That the host was on before proves nothing.
func TestADroppedChange(t *testing.T) {
	t.Parallel()
	a := newAPI()
	a.ignores = true
	h := a.host()
	if _, failure := h.Off(t.Context(), first); failure.Failed() {
		t.Fatal(failure)
	}
	a.change(annotated(own, hard), powered(false))
	if r, _ := h.Read(t.Context(), first); r.State != fencing.PowerUnknown {
		t.Errorf("read %v", r)
	}
}

// TestChangedDuringTheCommand: the BareMetalHost counts as the answer to the write shows it.
func TestChangedDuringTheCommand(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(map[string]any){
		"it is off meanwhile":    powered(false),
		"it is paused meanwhile": both(annotated(paused, "")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAPI()
			requests := 0
			a.during = func() {
				requests++
				if requests == 2 {
					change(a.object)
				}
			}
			h := a.host()
			if _, failure := h.Off(t.Context(), first); failure.Failed() {
				t.Fatal(failure)
			}
			a.change(powered(false), unset("metadata", "annotations", paused))
			if r, _ := h.Read(t.Context(), first); r.State != fencing.PowerUnknown || !r.Unproven.Failed() {
				t.Errorf("read %v", r)
			}
		})
	}
	t.Run("it is taken meanwhile", func(t *testing.T) {
		t.Parallel()
		a := newAPI()
		requests := 0
		a.during = func() {
			requests++
			if requests == 2 {
				consumed("claim-2")(a.object)
			}
		}
		_, failure := a.host().Off(t.Context(), first)
		wantFailure(t, failure, baremetalhost.Taken)
		if a.annotation(own) != "" {
			t.Error("the host of another consumer is kept off")
		}
	})
	t.Run("it may not be powered off meanwhile", func(t *testing.T) {
		t.Parallel()
		a := newAPI()
		requests := 0
		a.during = func() {
			requests++
			if requests == 2 {
				set(true, "spec", "disablePowerOff")(a.object)
			}
		}
		_, failure := a.host().Off(t.Context(), first)
		wantFailure(t, failure, baremetalhost.Unsuitable)
		if a.annotation(own) != "" {
			t.Error("Metal3 reboots it again and again")
		}
	})
	t.Run("it is replaced meanwhile", func(t *testing.T) {
		t.Parallel()
		a := newAPI()
		requests := 0
		a.during = func() {
			requests++
			if requests == 2 {
				set("uid-2", "metadata", "uid")(a.object)
			}
		}
		_, failure := a.host().Off(t.Context(), first)
		wantFailure(t, failure, baremetalhost.NotChanged)
		if a.patches != nil {
			t.Errorf("it was changed by %v", a.patches)
		}
	})
}

// TestProbe: the power for the status of a BMC is what Metal3 reports. It changes nothing, and tries whether a change is allowed.
func TestProbe(t *testing.T) {
	t.Parallel()
	for want, change := range map[fencing.PowerState]func(map[string]any){fencing.IsOn: powered(true), fencing.IsOff: powered(false)} {
		a := newAPI(change)
		h := a.host()
		state, failure := h.Probe(t.Context())
		wantFailure(t, failure, "")
		if state != want || a.patches != nil || len(a.dryRuns) != 1 || !strings.Contains(a.dryRuns[0], own) || !strings.Contains(a.dryRuns[0], "hard") {
			t.Errorf("it is %v, want %v; changes %v, tried %v", state, want, a.patches, a.dryRuns)
		}
	}
}

// TestProbeWithoutADryRun: a webhook that supports no dry run says nothing about the right.
func TestProbeWithoutADryRun(t *testing.T) {
	t.Parallel()
	a := newAPI()
	a.patchFails = apierrors.NewBadRequest("no dry run")
	state, failure := a.host().Probe(t.Context())
	wantFailure(t, failure, "")
	if state != fencing.IsOn {
		t.Errorf("it is %v", state)
	}
}

// TestInterrupted: an operation that was given up says so, also where it was not its turn yet.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	a := newAPI()
	h := a.host()
	ctx, cancel := context.WithCancel(t.Context())
	a.during = func() {
		a.during = nil
		cancel()
		a.readFails = context.Canceled
	}
	if _, failure := h.Read(ctx, first); !failure.Interrupted || failure.Reason != baremetalhost.NotRead {
		t.Errorf("failure %+v", failure)
	}
	a.readFails = nil
	waiting, entered := make(chan struct{}), make(chan struct{})
	a.during = func() {
		a.during = nil
		close(entered)
		<-waiting
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = h.Read(context.WithoutCancel(ctx), first)
	}()
	<-entered
	if _, failure := h.Read(ctx, first); !failure.Interrupted || !strings.Contains(failure.Message, "another operation") {
		t.Errorf("failure %+v", failure)
	}
	close(waiting)
	<-ended
	if _, failure := h.Read(context.WithoutCancel(ctx), first); failure.Failed() || failure.Interrupted {
		t.Errorf("failure %+v", failure)
	}
}
