package core

// SiblingOf is the other target with the same node as a target, such as a node's machine; the zero ID
// when there is none.
func SiblingOf(_ *Fleet, _ int) ID { return ID{} }
