// Package access writes the kubeconfigs through which a sandbox is used: the administrator's, those of the sandbox's own
// components, and those of service accounts. Every one embeds what it needs, so that it can be copied elsewhere.
//
//	err := access.Write("/tmp/demo/kubeconfig", access.Identity{Server: url, CA: ca, Certificate: admin})
package access
