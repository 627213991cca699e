package cloud

import (
	"bytes"
	"encoding/json"
	"fmt"

	cloudv1 "github.com/fettle-io/fettle/sandbox/api/cloud/v1alpha1"
	machinev1 "github.com/fettle-io/fettle/sandbox/api/machine/v1beta1"
)

const defaultInstanceType = "sim.large"

// parseProviderSpec reads the machine's configuration and fills in defaults. An unknown field is an invalid
// configuration: a misspelt fault that silently does nothing would waste the user's time.
func parseProviderSpec(machine *machinev1.Machine) (*cloudv1.SimulatedProviderSpec, error) {
	spec := &cloudv1.SimulatedProviderSpec{}
	if value := machine.Spec.ProviderSpec.Value; value != nil && len(value.Raw) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(value.Raw))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(spec); err != nil {
			return nil, &InvalidConfigurationError{Problem: fmt.Sprintf("spec.providerSpec.value can't be read: %v", err)}
		}
	}
	if spec.Kind != "" && spec.Kind != cloudv1.ProviderSpecKind {
		return nil, &InvalidConfigurationError{
			Problem: fmt.Sprintf("spec.providerSpec.value is a %s; this cloud reads %s", spec.Kind, cloudv1.ProviderSpecKind),
		}
	}
	switch spec.Launch {
	case "", cloudv1.LaunchError, cloudv1.LaunchInvalidConfiguration:
	default:
		return nil, &InvalidConfigurationError{Problem: fmt.Sprintf("spec.providerSpec.value.launch is %q", spec.Launch)}
	}
	if spec.Zone == "" {
		spec.Zone = defaultZone
	}
	if spec.InstanceType == "" {
		spec.InstanceType = defaultInstanceType
	}
	if spec.NodeLabels == nil {
		spec.NodeLabels = map[string]string{workerLabel: ""}
	}
	return spec, nil
}
