// Package metricsauth writes the kubeconfigs through which a sandbox is used: the administrator's, those of the sandbox's own
// components, and those of service accounts. Every one embeds what it needs, so that it can be copied elsewhere.
//
//	err := metricsauth.Write("/tmp/demo/kubeconfig", metricsauth.Identity{Server: url, CA: ca, Certificate: admin})
package access
