// Command house checks the text of this repository. Each citation of a document names a file and a section that exist.
// Some words are used no more often than hack/prose.txt allows. A file of the core uses what its own room declares,
// and those below it, by hack/rooms.txt. hack/check-house runs it.
package main
