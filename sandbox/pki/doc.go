// Package pki is the certificate authority of one sandbox: it makes certificates and keys once, keeps them in files,
// and returns the same ones on every later start, so that a kubeconfig stays valid. It does not know their users.
//
//	authority, err := pki.Open(dir.Path("pki"))
//	admin, err := authority.Issue(pki.Request{File: "admin", CommonName: "admin", Organization: "system:masters"})
package pki
