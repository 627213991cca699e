package workload

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What follows is for those who look at a cluster once, with their own permissions, and keep no connection.

// SecretOf is where the kubeconfig of a cluster is kept.
func SecretOf(cluster types.NamespacedName) types.NamespacedName { return secretOf(cluster) }

// Kubeconfig reads how to reach a cluster from its Secret. What would have a command run or a file read by whoever looks is
// refused. Its errors are for people.
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

// Explain says for people why a cluster does not tell its nodes, and what to do.
func Explain(err error, config *rest.Config, cluster types.NamespacedName) string {
	return explain(err, config.Host, secretOf(cluster).String())
}

// NewClient makes a client of a cluster that knows the kinds which are read there, and no others.
func NewClient(config *rest.Config, options client.Options) (client.WithWatch, error) {
	options.Mapper = mapper()
	own, err := httpClient(config, dialer().DialContext, oneShotBytes)
	if err != nil {
		return nil, errUnusable // the error may repeat what is secret in the kubeconfig
	}
	options.HTTPClient = own
	c, err := client.NewWithWatch(config, options)
	if err != nil {
		return nil, errNoURL // the error repeats the address, and what is secret in it
	}
	return c, nil
}
