// Package metricsauth authorises requests for metrics. The API server reviews the bearer token of a request
// (TokenReview), and the right of its user to get the path (SubjectAccessReview). A request that can't be
// reviewed is refused.
//
// For this purpose it does the same as the delegated authentication of k8s.io/apiserver.
// docs/adr/0008-who-may-scrape.md says why Fettle doesn't use that.
package metricsauth
