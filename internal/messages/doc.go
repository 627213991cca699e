// Package messages has the texts about targets that all dialects share, for the notes of events and the messages of
// conditions. It is pure. The name for targets, and the reasons of its API, are the dialect's own.
package messages
