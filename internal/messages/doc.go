// Package messages has the words by which all dialects tell people of targets: in the notes of events, and in the
// messages of conditions. It is pure. What a dialect calls its targets, and the reasons that its API has, are the
// dialect's own.
package messages
