// Command release writes the files of a release besides its binaries and its chart. They are the image, the bills of
// materials, the manifests and the checksums. It reads no clock, no environment and no network, so the same binaries
// and the same sources give the same bytes. hack/release runs it.
package main
