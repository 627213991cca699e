package cloud

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	cloudv1 "github.com/fettle-io/fettle/sandbox/api/cloud/v1alpha1"
	machinev1 "github.com/fettle-io/fettle/sandbox/api/machine/v1beta1"
)

func TestParseProviderSpec(t *testing.T) {
	worker := map[string]string{workerLabel: ""}
	cases := map[string]struct {
		reason string
		raw    string
		want   *cloudv1.SimulatedProviderSpec // nil for an invalid configuration
	}{
		"nothing": {
			reason: "a machine need not ask for anything",
			want:   &cloudv1.SimulatedProviderSpec{Zone: defaultZone, InstanceType: defaultInstanceType, NodeLabels: worker},
		},
		"everything": {
			reason: "what is given stays",
			raw: `{"kind":"SimulatedProviderSpec","zone":"z","instanceType":"t","bootTime":"5s","launch":"Error",
				"joins":false,"failsAfter":"1m","nodeLabels":{"a":"b"}}`,
			want: &cloudv1.SimulatedProviderSpec{
				TypeMeta: metav1.TypeMeta{Kind: cloudv1.ProviderSpecKind},
				Zone:     "z", InstanceType: "t", Launch: cloudv1.LaunchError, Joins: new(false),
				BootTime:   &metav1.Duration{Duration: 5 * time.Second},
				FailsAfter: &metav1.Duration{Duration: time.Minute},
				NodeLabels: map[string]string{"a": "b"},
			},
		},
		"a misspelt field":      {reason: "a fault that does nothing would waste its author's time", raw: `{"failAfter":"1m"}`},
		"an unknown answer":     {reason: "the same", raw: `{"launch":"Never"}`},
		"another cloud's spec":  {reason: "this cloud can't launch it", raw: `{"kind":"AWSMachineProviderConfig"}`},
		"something that is off": {reason: "it isn't even an object", raw: `"large"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			machine := &machinev1.Machine{}
			if tc.raw != "" {
				machine.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(tc.raw)}
			}
			got, err := parseProviderSpec(machine)
			if _, invalid := errors.AsType[*InvalidConfigurationError](err); invalid != (tc.want == nil) {
				t.Fatalf("%s: error %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: want(-) got(+)\n%s", tc.reason, diff)
			}
		})
	}
}
