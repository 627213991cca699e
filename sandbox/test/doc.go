// Package test starts the built fettle-sandbox as a user would and checks its promises. It needs the binaries (make
// build), found beside the repository's root in bin/, or through FETTLE_SANDBOX_BIN. It imports no Kubernetes server,
// so that it can run under the race detector without compiling one.
package test
