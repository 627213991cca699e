// Package selector keeps an index of which label selectors select which objects. Matching a selector
// is the most expensive part of a change. So the index matches only a changed object against all
// selectors, or a changed selector against all objects.
package selector
