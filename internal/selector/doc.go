// Package selector keeps an index of which label selectors select which objects. Matching a selector costs more than all else
// that a change of an object does, so only what has changed is matched again: an object against all selectors, or a selector
// against all objects.
package selector
