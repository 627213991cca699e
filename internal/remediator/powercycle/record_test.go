package powercycle

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/internal/fencing"
	"github.com/fettle-io/fettle/internal/remediator/fencednode"
)

// fullRecord has a value in every field.
func fullRecord() fencing.Record {
	return fencing.Record{
		Phase: fencing.Releasing, Since: noon.Add(123456 * time.Microsecond), Attempt: 2, NodeUID: "uid", BootID: "before", OffBootID: "off",
		ForeignOutOfService: true, Proof: fencing.Proof{Kind: fencing.NewBoot, At: noon.Add(7 * time.Microsecond), BootID: "now"},
		Void: 3, Released: true, ReleasedBefore: true, DeletedNode: true, MachineDeletion: true, PoweredOff: true, Reason: fencing.ProofVoid,
		Times: fencing.Times{CommandedAt: noon, ReleasedAt: noon.Add(time.Second), BackAt: noon.Add(time.Minute), BackBootID: "back"},
	}
}

// roundTrip writes a record into a status, encodes that as the API server does, and returns the record of it.
func roundTrip(t *testing.T, r fencing.Record) fencing.Record {
	t.Helper()
	var status, stored v1alpha1.PowerRemediationStatus
	writeRecord(&status, "node-a", r)
	text, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &stored); err != nil {
		t.Fatal(err)
	}
	if stored.Node.Name != "node-a" {
		t.Errorf("the node is called %q", stored.Node.Name)
	}
	return recordOf(&stored)
}

// TestRecordOutlivesItsStatus: each field alone, and all of them, are the same after a restart.
func TestRecordOutlivesItsStatus(t *testing.T) {
	cases := map[string]func(*fencing.Record){
		"nothing":         func(*fencing.Record) {},
		"all":             func(r *fencing.Record) { *r = fullRecord() },
		"phase":           func(r *fencing.Record) { r.Phase = fencing.Aborting },
		"attempt":         func(r *fencing.Record) { r.Attempt = 100 },
		"UID":             func(r *fencing.Record) { r.NodeUID = "uid" },
		"boot ID":         func(r *fencing.Record) { r.BootID = "boot" },
		"boot ID at off":  func(r *fencing.Record) { r.OffBootID = "boot" },
		"foreign taint":   func(r *fencing.Record) { r.ForeignOutOfService = true },
		"command":         func(r *fencing.Record) { r.CommandedAt = noon },
		"earlier release": func(r *fencing.Record) { r.ReleasedBefore = true },
		"release":         func(r *fencing.Record) { r.ReleasedAt = noon },
		"back":            func(r *fencing.Record) { r.BackAt, r.BackBootID = noon, "back" },
		"proof":           func(r *fencing.Record) { r.Proof = fencing.Proof{Kind: fencing.PowerOff, At: noon} },
		"void":            func(r *fencing.Record) { r.Void = 1 << 30 },
		"released":        func(r *fencing.Record) { r.Released = true },
		"deleted node":    func(r *fencing.Record) { r.DeletedNode = true },
		"deleted machine": func(r *fencing.Record) { r.MachineDeletion = true },
		"powered off":     func(r *fencing.Record) { r.PoweredOff = true },
		"reason":          func(r *fencing.Record) { r.Reason = fencing.Stopped },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			want := fencing.Record{Since: noon}
			change(&want)
			if diff := cmp.Diff(want, roundTrip(t, want)); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRecordStaysInItsBounds: a value that the definition of the kind would refuse is written as the most that it accepts.
func TestRecordStaysInItsBounds(t *testing.T) {
	var s v1alpha1.PowerRemediationStatus
	writeRecord(&s, "node-a", fencing.Record{
		Attempt: 101, Void: 1<<30 + 1, Since: noon.Add(999 * time.Nanosecond).In(time.FixedZone("", 3600)),
		Times: fencing.Times{BackAt: noon.Add(999 * time.Nanosecond).In(time.FixedZone("", 3600))},
	})
	if s.Attempt != 100 || s.VoidProofs != 1<<30 {
		t.Errorf("attempt %d and %d void proofs", s.Attempt, s.VoidProofs)
	}
	if !s.PhaseSince.Time.Equal(noon) || s.PhaseSince.Location() != time.UTC {
		t.Errorf("since %v, want whole microseconds in UTC", s.PhaseSince)
	}
	if !s.BackAt.Time.Equal(noon) || s.BackAt.Location() != time.UTC {
		t.Errorf("back at %v, want whole microseconds in UTC", s.BackAt)
	}
}

// TestRecordLeavesTheRestAlone: fields of a status that other functions write stay, and an old proof goes.
func TestRecordLeavesTheRestAlone(t *testing.T) {
	before := v1alpha1.PowerRemediationStatus{BMC: &v1alpha1.FencingBMC{Name: "bmc-a"}, Machine: &v1alpha1.ObjectReference{Name: "m"}, FencingStatus: v1alpha1.FencingStatus{
		Node:       &v1alpha1.FencedNode{Name: "node-a", Saved: &v1alpha1.SavedNode{UID: "saved"}},
		Conditions: []metav1.Condition{{Type: "C"}}, Proof: &v1alpha1.FencingProof{Kind: "PowerOff"},
	}}
	after := *before.DeepCopy()
	writeRecord(&after, "node-a", fencing.Record{Since: noon})
	since := metav1.NewMicroTime(noon)
	before.PhaseSince, before.Proof, before.RequiredProof = &since, nil, v1alpha1.AnyProof
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestRecordOfAnEmptyStatus(t *testing.T) {
	if got := recordOf(&v1alpha1.PowerRemediationStatus{}); got != (fencing.Record{}) {
		t.Errorf("the record of an empty status is %+v", got)
	}
}

// TestDefaultsAreThoseOfTheDefinition: a spec without a field, and a spec as the API server completes it, mean the same.
func TestDefaultsAreThoseOfTheDefinition(t *testing.T) {
	text, err := os.ReadFile("../../../config/crd/fettle.io_powerremediations.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type schema struct {
		Default    any                `json:"default"`
		Properties map[string]*schema `json:"properties"`
	}
	var definition struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema schema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &definition); err != nil {
		t.Fatal(err)
	}
	defaults := map[string]any{}
	for name, field := range definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties {
		if field.Default == nil {
			t.Errorf("spec.%s has no default", name)
		}
		defaults[name] = field.Default
	}
	body, err := json.Marshal(defaults)
	if err != nil {
		t.Fatal(err)
	}
	var completed v1alpha1.PowerRemediationSpec
	if err := json.Unmarshal(body, &completed); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(configOf(&completed), configOf(&v1alpha1.PowerRemediationSpec{})); diff != "" {
		t.Errorf("config (-defaults of the definition +defaults of the code):\n%s", diff)
	}
}

// TestProtocolOf: how Fettle speaks to a BMC, by its address.
func TestProtocolOf(t *testing.T) {
	for address, want := range map[string]string{
		"redfish+http://h:80/redfish/v1/Systems/1": "Redfish", "ipmi://h": "IPMI", "ipmi://h/path": "", "": "",
	} {
		if got := protocolOf(&v1alpha1.BMC{Spec: v1alpha1.BMCSpec{Address: address}}); got != want {
			t.Errorf("to %q Fettle speaks %q, want %q", address, got, want)
		}
	}
}

func TestConfigOf(t *testing.T) {
	base := configOf(&v1alpha1.PowerRemediationSpec{})
	zero, most := int32(0), int32(10)
	minutes := func(n int) *metav1.Duration { return &metav1.Duration{Duration: time.Duration(n) * time.Minute} }
	for name, tc := range map[string]struct {
		spec v1alpha1.PowerRemediationSpec
		want func(*fencing.Config)
	}{
		"off":                {v1alpha1.PowerRemediationSpec{Strategy: v1alpha1.OffStrategy}, func(c *fencing.Config) { c.Off = true }},
		"reboot":             {v1alpha1.PowerRemediationSpec{Strategy: v1alpha1.RebootStrategy}, func(*fencing.Config) {}},
		"delete the node":    {v1alpha1.PowerRemediationSpec{Release: v1alpha1.DeleteNodeRelease}, func(c *fencing.Config) { c.DeleteNode = true }},
		"taint":              {v1alpha1.PowerRemediationSpec{Release: v1alpha1.TaintRelease}, func(*fencing.Config) {}},
		"delete the machine": {v1alpha1.PowerRemediationSpec{OnFailure: v1alpha1.DeleteMachineAction}, func(c *fencing.Config) { c.DeleteMachine = true }},
		"hold":               {v1alpha1.PowerRemediationSpec{OnFailure: v1alpha1.HoldAction}, func(*fencing.Config) {}},
		"no retry":           {v1alpha1.PowerRemediationSpec{Retries: &zero}, func(c *fencing.Config) { c.Retries = 0 }},
		"ten retries":        {v1alpha1.PowerRemediationSpec{Retries: &most}, func(c *fencing.Config) { c.Retries = 10 }},
		"power-off":          {v1alpha1.PowerRemediationSpec{PowerOffTimeout: minutes(21)}, func(c *fencing.Config) { c.Limits.PowerOff = 21 * time.Minute }},
		"release":            {v1alpha1.PowerRemediationSpec{ReleaseTimeout: minutes(22)}, func(c *fencing.Config) { c.Limits.Release = 22 * time.Minute }},
		"power-on":           {v1alpha1.PowerRemediationSpec{PowerOnTimeout: minutes(23)}, func(c *fencing.Config) { c.Limits.PowerOn = 23 * time.Minute }},
		"boot":               {v1alpha1.PowerRemediationSpec{BootTimeout: minutes(24)}, func(c *fencing.Config) { c.Limits.Boot = 24 * time.Minute }},
		"machine":            {v1alpha1.PowerRemediationSpec{MachineDeletionTimeout: minutes(25)}, func(c *fencing.Config) { c.Limits.MachineDeletion = 25 * time.Minute }},
		"no time":            {v1alpha1.PowerRemediationSpec{BootTimeout: minutes(0)}, func(*fencing.Config) {}},
		"negative time":      {v1alpha1.PowerRemediationSpec{BootTimeout: minutes(-1)}, func(*fencing.Config) {}},
		"a nanosecond": {
			v1alpha1.PowerRemediationSpec{BootTimeout: &metav1.Duration{Duration: 1}}, func(c *fencing.Config) { c.Limits.Boot = 1 },
		},
	} {
		want := base
		tc.want(&want)
		if diff := cmp.Diff(want, configOf(&tc.spec)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestKnownPhases(t *testing.T) {
	for _, p := range phases {
		if !known(string(p)) {
			t.Errorf("phase %q is unknown", p)
		}
	}
	for _, p := range []string{"preparing", "Rebooting", " "} {
		if known(p) {
			t.Errorf("phase %q is known", p)
		}
	}
}

// TestSetConditions: it reports a change, keeps the time of a status that stays, and makes texts safe.
func TestSetConditions(t *testing.T) {
	var s v1alpha1.PowerRemediationStatus
	c := fencednode.NewCondition("Kind", metav1.ConditionTrue, "Because", "one\ntwo")
	at := noon.Add(1500 * time.Millisecond).In(time.FixedZone("", 3600))
	if !fencednode.SetConditions(&s.FencingStatus, at, c) {
		t.Error("a new condition is no change")
	}
	want := []metav1.Condition{{Type: "Kind", Status: metav1.ConditionTrue, Reason: "Because", Message: "one two", LastTransitionTime: metav1.NewTime(noon.Add(time.Second))}}
	if diff := cmp.Diff(want, s.Conditions); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if fencednode.SetConditions(&s.FencingStatus, noon.Add(time.Hour), c) || !s.Conditions[0].LastTransitionTime.Time.Equal(noon.Add(time.Second)) {
		t.Error("the same condition is a change")
	}
	second := fencednode.NewCondition("Other", metav1.ConditionTrue, "Because", "")
	if !fencednode.SetConditions(&s.FencingStatus, noon, second, c) || len(s.Conditions) != 2 {
		t.Error("a change of the first of two conditions is not reported")
	}
	if fencednode.SetConditions(&s.FencingStatus, noon) {
		t.Error("no condition is a change")
	}
}

// TestWhatAnAttemptComesToNeed: both proofs, where its status does not say what it needs. It keeps to what it has come to need, also while the
// configuration is not known, and before its first record it needs nothing.
func TestWhatAnAttemptComesToNeed(t *testing.T) {
	for _, tc := range []struct {
		phase                fencing.Phase
		said                 v1alpha1.RequiredProof
		before, config, want bool
	}{
		{fencing.PoweringOff, "", false, true, true}, {fencing.PoweringOff, "", true, false, true}, {fencing.PoweringOff, "", false, false, false},
		{fencing.PoweringOff, v1alpha1.AnyProof, false, true, false}, {"", "", false, true, false},
	} {
		s := v1alpha1.PowerRemediationStatus{FencingStatus: v1alpha1.FencingStatus{Phase: string(tc.phase)}, RequiredProof: tc.said}
		if got := recoverRecord(&s, fencing.Record{Both: tc.before}, fencing.Config{Both: tc.config}).Both; got != tc.want {
			t.Errorf("%+v: it needs both: %t", tc, got)
		}
	}
}

// TestWhatAnOlderDefinitionDrops: either field shows that the status is not kept.
func TestWhatAnOlderDefinitionDrops(t *testing.T) {
	for sentence, tc := range map[string]struct {
		drop func(*v1alpha1.PowerRemediationStatus)
		kept bool
	}{
		"nothing":               {func(*v1alpha1.PowerRemediationStatus) {}, true},
		"what it needs":         {func(s *v1alpha1.PowerRemediationStatus) { s.RequiredProof = "" }, false},
		"that it has condemned": {func(s *v1alpha1.PowerRemediationStatus) { s.Condemned = false }, false},
	} {
		record := fencing.Record{Phase: fencing.PoweringOff, Both: true, Revoked: true}
		var s v1alpha1.PowerRemediationStatus
		writeRecord(&s, "node-a", record)
		tc.drop(&s)
		if got := isKept(&s, record); got != tc.kept {
			t.Errorf("%s: it is kept: %t", sentence, got)
		}
	}
}
