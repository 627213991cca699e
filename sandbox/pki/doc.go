// Package pki is the certificate authority of one sandbox: it makes certificates and keys once, keeps them in files,
// and hands out the same ones on every later start, so that a kubeconfig stays valid. It must not know who uses them.
//
//	authority, err := pki.Open(dir.Path("pki"))
//	admin, err := authority.Issue(pki.Request{File: "admin", CommonName: "admin", Organization: "system:masters"})
package pki
