package workload

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// This file is for commands that read a cluster once, with the user's rights, and keep no connection.

// SecretOf returns the name of the Secret that has the kubeconfig of a cluster.
func SecretOf(cluster types.NamespacedName) types.NamespacedName { return secretOf(cluster) }

// Kubeconfig reads how to reach a cluster from its Secret. It refuses a kubeconfig that has a command run or a file
// read. Its errors are texts for users.
func Kubeconfig(secret *unstructured.Unstructured) (*rest.Config, error) {
	raw, err := valueOf(secret)
	if err != nil {
		return nil, err
	}
	config, err := readKubeconfig(raw)
	if err != nil {
		return nil, userErrorf("Secret %s/%s has a kubeconfig that can't be followed: %s", secret.GetNamespace(), secret.GetName(), err)
	}
	return config, nil
}

// Explain returns why the nodes of a cluster can't be read, and what to do, as a text for users.
func Explain(err error, config *rest.Config, cluster types.NamespacedName) string {
	return explain(err, config.Host, secretOf(cluster).String())
}

// NewClient returns a client of a cluster that knows only the kinds which Fettle reads there.
func NewClient(config *rest.Config, options client.Options) (client.WithWatch, error) {
	options.Mapper = mapper()
	own, err := httpClient(config, dialer().DialContext, oneShotBytes)
	if err != nil {
		return nil, errUnusable // the cause may repeat secrets of the kubeconfig
	}
	options.HTTPClient = own
	c, err := client.NewWithWatch(config, options)
	if err != nil {
		return nil, errNoURL // the cause repeats the address, and secrets in it
	}
	return c, nil
}
