package metal

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fettle-io/fettle/sandbox/redfish"
)

func TestRoundOfMetal3(t *testing.T) {
	const on, off = true, false
	status := func(operational, errorType string, power bool) map[string]any {
		return map[string]any{"operationalStatus": operational, "errorType": errorType, "poweredOn": power}
	}
	ok := func(power bool) map[string]any { return status("OK", "", power) }
	const rebooted = "reboot.metal3.io/x"
	keptOff := map[string]string{rebooted: ""}
	in := func(state string, status map[string]any) map[string]any {
		status["provisioning"] = map[string]any{"state": state}
		return status
	}
	available := func(force string) map[string]string {
		return map[string]string{AnnotationState: "available", rebooted: force}
	}
	cases := map[string]struct {
		offline bool
		// unstoppable has the power never go off.
		unstoppable bool
		annotations map[string]string
		status      map[string]any
		power       bool
		// want is what the round does: a status as status() has it, "removes", "idle", "on", "off" or "reboots".
		want any
	}{
		"a new host is reported":                   {status: nil, power: on, want: ok(on)},
		"nothing to do":                            {status: ok(on), power: on, want: "idle"},
		"the power is reported before it is used":  {status: ok(on), power: off, want: ok(off)},
		"it is powered on":                         {status: ok(off), power: off, want: "on"},
		"its owner wants it off":                   {offline: true, status: ok(on), power: on, want: "off"},
		"its owner wants it off, and it is":        {offline: true, status: ok(off), power: off, want: "idle"},
		"a client keeps it off":                    {annotations: map[string]string{"reboot.metal3.io/x": ""}, status: ok(on), power: on, want: "off"},
		"a client keeps it off, and it is":         {annotations: map[string]string{"reboot.metal3.io/x": ""}, status: ok(off), power: off, want: "idle"},
		"a client reboots it":                      {annotations: map[string]string{"reboot.metal3.io": ""}, status: ok(on), power: on, want: "off"},
		"a client reboots it, and it is off":       {annotations: map[string]string{"reboot.metal3.io": ""}, status: ok(off), power: off, want: "removes"},
		"an annotation of another kind":            {annotations: map[string]string{"reboot.metal3.iox": ""}, status: ok(on), power: on, want: "idle"},
		"an error is reported":                     {annotations: map[string]string{AnnotationError: "e"}, status: ok(on), power: off, want: status("error", "e", on)},
		"an error powers nothing":                  {annotations: map[string]string{AnnotationError: "e", "reboot.metal3.io/x": ""}, status: status("error", "e", on), power: on, want: "idle"},
		"an error that is over":                    {status: status("error", "e", on), power: on, want: ok(on)},
		"a detached host is reported":              {annotations: map[string]string{detachedAnnotation: ""}, status: ok(on), power: off, want: status("detached", "", on)},
		"a detached host is left alone":            {annotations: map[string]string{detachedAnnotation: "", "reboot.metal3.io/x": ""}, status: status("detached", "", on), power: on, want: "idle"},
		"a host that is attached again":            {status: status("detached", "", on), power: off, want: ok(off)},
		"a host that must not go off is rebooted":  {unstoppable: true, annotations: keptOff, status: ok(on), power: on, want: "reboots"},
		"a host that must not go off, and is":      {unstoppable: true, annotations: keptOff, status: ok(off), power: off, want: "idle"},
		"its state is reported":                    {annotations: map[string]string{AnnotationState: "deprovisioning"}, status: ok(on), power: on, want: in("deprovisioning", ok(on))},
		"another state keeps the reported power":   {annotations: map[string]string{AnnotationState: "deprovisioning"}, status: ok(on), power: off, want: in("deprovisioning", ok(on))},
		"another state powers nothing":             {annotations: map[string]string{AnnotationState: "deprovisioning", rebooted: ""}, status: in("deprovisioning", ok(on)), power: off, want: "idle"},
		"a provisioned host":                       {annotations: map[string]string{AnnotationState: "provisioned", rebooted: ""}, status: in("provisioned", ok(on)), power: on, want: "off"},
		"an available host is powered on":          {annotations: map[string]string{AnnotationState: "available"}, status: in("available", ok(off)), power: off, want: "on"},
		"an available host is not kept off":        {annotations: available(`{"mode":"hard"}`), status: in("available", ok(on)), power: on, want: "idle"},
		"an available host is kept off by force":   {annotations: available(`{"mode":"hard","force":true}`), status: in("available", ok(on)), power: on, want: "off"},
		"nonsense is no force":                     {annotations: available(`{"force":`), status: in("available", ok(on)), power: on, want: "idle"},
		"an error before the power was ever known": {annotations: map[string]string{AnnotationError: "e"}, power: on, want: status("error", "e", off)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			u := newBareMetalHost("h")
			u.Object["spec"] = map[string]any{"online": !c.offline, "disablePowerOff": c.unstoppable}
			if c.status != nil {
				u.Object["status"] = c.status
				if _, set := c.status["provisioning"]; !set {
					in("externally provisioned", c.status)
				}
			}
			u.SetAnnotations(c.annotations)
			r := roundOf(u, c.power)
			if want, is := c.want.(map[string]any); is {
				if _, set := want["provisioning"]; !set {
					in("externally provisioned", want)
				}
				for key, value := range want {
					if !reflect.DeepEqual(r.status[key], value) {
						t.Errorf("%s is %v, want %v", key, r.status[key], value)
					}
				}
				return
			}
			got := "off"
			switch {
			case r.status != nil:
				t.Fatalf("the status is written: %v", r.status)
			case r.removes == rebootAnnotation:
				got = "removes"
			case r.idle:
				got = "idle"
			case r.turnsOn:
				got = "on"
			case r.reboots:
				got = "reboots"
			}
			if got != c.want {
				t.Errorf("it does %q, want %q", got, c.want)
			}
		})
	}
}

func TestLagOfMetal3(t *testing.T) {
	for text, want := range map[string]time.Duration{"": defaultLag, "3s": 3 * time.Second, "0s": defaultLag, "-1s": defaultLag, "soon": defaultLag} {
		u := newBareMetalHost("h")
		u.SetAnnotations(map[string]string{AnnotationLag: text})
		if got := lag(u); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

// TestRecordOfIronic: the record of a host's power is as old as Ironic's last read, or change, of it.
func TestRecordOfIronic(t *testing.T) {
	now := time.Date(2026, time.May, 4, 3, 2, 1, 0, time.UTC)
	f := newFleet(func() time.Time { return now })
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{Label: LabelBareMetalHost}, Annotations: map[string]string{AnnotationRecordAge: "10s"}}}
	h := newHost(node, f.now, func() {})
	obey(h, node)
	f.hosts["n"] = h
	i := newIronic(f)
	is := func(want redfish.PowerState) {
		t.Helper()
		i.readAll()
		if on := i.record(h); on != (want == redfish.On) {
			t.Errorf("after %s the record is on: %t, and the host is %s", now.Format("05"), on, h.State())
		}
	}
	is(redfish.On)
	h.turnOff()
	is(redfish.On)
	now = now.Add(9 * time.Second)
	is(redfish.On)
	now = now.Add(time.Second)
	is(redfish.Off)
	h.turnOn()
	is(redfish.Off)
	i.turn(h, false)
	is(redfish.Off)
	if h.State() != redfish.Off {
		t.Errorf("a host that others have turned on is %s", h.State())
	}
	i.turn(h, true)
	is(redfish.On)
	delete(f.hosts, "n")
	i.readAll()
	if len(i.records) != 0 {
		t.Errorf("a host that is gone has the record %v", i.records)
	}
}

func TestRecordAge(t *testing.T) {
	for text, want := range map[string]time.Duration{"": defaultLag, "3s": 3 * time.Second, "0s": defaultLag, "-1s": defaultLag, "soon": defaultLag} {
		h := newHost(&corev1.Node{}, time.Now, func() {})
		node := &corev1.Node{}
		node.Annotations = map[string]string{AnnotationRecordAge: text}
		obey(h, node)
		if h.recordAge() != want {
			t.Errorf("%q is %s, want %s", text, h.recordAge(), want)
		}
	}
}
