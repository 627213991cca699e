// Package metricsauth lets those read what Fettle serves whom the cluster knows and allows it: a bearer token
// is reviewed by the API server (TokenReview), and so is the right of its owner to get the path
// (SubjectAccessReview). What can't be reviewed is refused.
//
// It does what k8s.io/apiserver's delegated authentication does for this one purpose;
// docs/adr/0008-who-may-scrape.md says why it is not used.
package metricsauth
