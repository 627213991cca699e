// Command house checks what is written in this repository: each citation of a document names a file and a section that
// exist, and some words are used no more often than hack/prose.txt allows. hack/check-house runs it.
package main
