package cloud

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cloudv1 "github.com/fettle-io/fettle/sandbox/api/cloud/v1alpha1"
	machinev1 "github.com/fettle-io/fettle/sandbox/api/machine/v1beta1"
)

const (
	defaultZone     = "zone-a"
	defaultBootTime = time.Second
	workerLabel     = "node-role.kubernetes.io/worker"
)

var errRefused = errors.New("the simulated cloud was told to refuse launches for now")

// InvalidConfigurationError says that a machine can never be launched with its configuration.
type InvalidConfigurationError struct {
	Problem string
}

func (e *InvalidConfigurationError) Error() string { return e.Problem }

// Cloud is the interface of a cloud for a machine controller.
type Cloud struct {
	client client.Client
}

// New returns a cloud whose instances are objects that the client reads and writes.
func New(c client.Client) *Cloud { return &Cloud{client: c} }

// Find returns the instance launched for the machine, or nil if there is none.
func (c *Cloud) Find(ctx context.Context, machine *machinev1.Machine) (*cloudv1.Instance, error) {
	instance := &cloudv1.Instance{}
	err := c.client.Get(ctx, client.ObjectKey{Name: machine.Name}, instance)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("asking the cloud for instance %s: %w", machine.Name, err)
	}
	if instance.Spec.Machine.UID != machine.UID {
		return nil, nil // of an earlier machine of that name
	}
	return instance, nil
}

// Launch creates an instance, and reports whether this call created it. To repeat a call is harmless. If a machine can
// never be launched, the error is an *InvalidConfigurationError.
func (c *Cloud) Launch(ctx context.Context, machine *machinev1.Machine) (bool, error) {
	spec, err := parseProviderSpec(machine)
	if err != nil {
		return false, err
	}
	switch spec.Launch {
	case cloudv1.LaunchInvalidConfiguration:
		return false, &InvalidConfigurationError{Problem: "the simulated cloud was told that this configuration is invalid"}
	case cloudv1.LaunchError:
		return false, errRefused
	}
	instance := newInstance(machine, spec)
	err = c.client.Create(ctx, instance)
	if apierrors.IsAlreadyExists(err) {
		return false, c.checkOwner(ctx, machine)
	}
	if err != nil {
		return false, fmt.Errorf("creating instance %s: %w", instance.Name, err)
	}
	return true, nil
}

// checkOwner returns nil if the instance of the machine's name was launched for this very machine.
func (c *Cloud) checkOwner(ctx context.Context, machine *machinev1.Machine) error {
	existing := &cloudv1.Instance{}
	err := c.client.Get(ctx, client.ObjectKey{Name: machine.Name}, existing)
	if apierrors.IsNotFound(err) {
		return nil // so new that the cache doesn't have it yet
	}
	if err != nil {
		return fmt.Errorf("asking the cloud for instance %s: %w", machine.Name, err)
	}
	if of := existing.Spec.Machine; of.UID != machine.UID {
		return fmt.Errorf("the instance name %s is taken by machine %s/%s with UID %s", machine.Name, of.Namespace, of.Name, of.UID)
	}
	return nil
}

// Terminate starts the termination of an instance. It is over when Find returns nil.
func (c *Cloud) Terminate(ctx context.Context, instance *cloudv1.Instance) error {
	err := c.client.Delete(ctx, instance, client.Preconditions{UID: &instance.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("terminating instance %s: %w", instance.Name, err)
	}
	return nil
}

func newInstance(machine *machinev1.Machine, spec *cloudv1.SimulatedProviderSpec) *cloudv1.Instance {
	return &cloudv1.Instance{
		ObjectMeta: metav1.ObjectMeta{
			Name:       machine.Name,
			Finalizers: []string{cloudv1.InstanceFinalizer},
		},
		Spec: cloudv1.InstanceSpec{
			Machine:      cloudv1.MachineReference{Namespace: machine.Namespace, Name: machine.Name, UID: machine.UID},
			Zone:         spec.Zone,
			InstanceType: spec.InstanceType,
			NodeName:     machine.Name,
			NodeLabels:   spec.NodeLabels,
			BootTime:     ptr.Deref(spec.BootTime, metav1.Duration{Duration: defaultBootTime}),
			Joins:        spec.Joins,
			FailsAfter:   spec.FailsAfter,
		},
	}
}
