// Package access writes the kubeconfigs of a sandbox: for the administrator, for the sandbox's own components, and
// for service accounts. Each embeds its credentials, so that it can be copied.
//
//	err := access.Write("/tmp/demo/kubeconfig", access.Identity{Server: url, CA: ca, Certificate: admin})
package access
