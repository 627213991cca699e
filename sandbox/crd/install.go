package crd

import (
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const (
	discoveryPoll    = 50 * time.Millisecond
	discoveryTimeout = 30 * time.Second
)

// Install creates the definitions of a set, or updates those of an older sandbox.
// It returns when discovery lists them.
func Install(config *rest.Config, set Set) error {
	definitions, err := Definitions(set)
	if err != nil {
		return err
	}
	return Apply(config, definitions)
}

// Apply creates or updates definitions, and returns when discovery lists all their served versions.
// Before that, a client that looks up a kind does not find it.
func Apply(config *rest.Config, definitions []*apiextensionsv1.CustomResourceDefinition) error {
	options := envtest.CRDInstallOptions{CRDs: definitions, PollInterval: discoveryPoll, MaxTime: discoveryTimeout}
	if _, err := envtest.InstallCRDs(config, options); err != nil {
		return fmt.Errorf("installing definitions: %w", err)
	}
	return nil
}
