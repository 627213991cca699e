package metal

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestRoundOfMetal3(t *testing.T) {
	const on, off = true, false
	status := func(operational, errorType string, power bool) map[string]any {
		return map[string]any{"operationalStatus": operational, "errorType": errorType, "poweredOn": power}
	}
	ok := func(power bool) map[string]any { return status("OK", "", power) }
	cases := map[string]struct {
		offline     bool
		annotations map[string]string
		status      map[string]any
		power       bool
		// want is what the round does: a status as status() has it, "removes", "idle", "on" or "off".
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
		"an error before the power was ever known": {annotations: map[string]string{AnnotationError: "e"}, power: on, want: status("error", "e", off)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			u := newBareMetalHost("h")
			u.Object["spec"] = map[string]any{"online": !c.offline}
			if c.status != nil {
				u.Object["status"] = c.status
			}
			u.SetAnnotations(c.annotations)
			r := roundOf(u, c.power)
			if want, is := c.want.(map[string]any); is {
				for key, value := range want {
					if r.status[key] != value {
						t.Errorf("%s is %v, want %v", key, r.status[key], value)
					}
				}
				if state, _, _ := unstructured.NestedString(r.status, "provisioning", "state"); state != "externally provisioned" {
					t.Errorf("its state is %q", state)
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
