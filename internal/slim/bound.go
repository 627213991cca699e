package slim

import (
	"fmt"
	"slices"
	"strings"
)

// The bounds on one object. Parts beyond a bound are skipped, and Meta.Unread says so.
const (
	// maxConditions is how many conditions of a node are kept. Kubelets and node problem detectors write about 20.
	maxConditions = 128
	// maxLabels and maxLabelBytes are how many labels are kept, and how long they may be in all. Feature discovery
	// and virtualization together write about 300 of 15 KiB.
	maxLabels     = 1024
	maxLabelBytes = 64 << 10
	// maxWord is the length of the longest word: a qualified name has a prefix of 253 bytes and a name of 63.
	maxWord = 253 + 1 + 63
	// maxIdentity is the length of the longest name, namespace, UID or resource version.
	maxIdentity = 253
)

// The texts about skipped parts. They have no numbers of the object, so that they stay the same while it changes.
const (
	tooManyConditions = "it has more than the 128 conditions that Fettle reads of a node"
	tooLongCondition  = "it has a condition whose type, status or reason is longer than the 317 bytes that Fettle reads"
	tooManyLabels     = "it has more labels than the 1024, of 65536 bytes in all, that Fettle reads of an object"
	tooLongLabel      = "it has a label whose key or value is longer than the 317 bytes that Fettle reads"
	tooLongAnnotation = "it has an annotation that Fettle reads and whose value is longer than 317 bytes"
	tooLongOwner      = "it has a reference to its controller with a word longer than the 317 bytes that Fettle reads"
)

// skip records that a part of the object was skipped. It records each text once.
func (m *Meta) skip(sentence string) {
	switch {
	case m.Unread == "":
		m.Unread = sentence
	case !strings.Contains(m.Unread, sentence):
		m.Unread += "; " + sentence
	}
}

// checkIdentity returns an error for an identity that no API server assigns. Objects can't be told apart by the
// beginnings of their names.
func (m *Meta) checkIdentity() error {
	for _, part := range [...]string{m.Name, m.Namespace, string(m.UID), m.ResourceVersion} {
		if len(part) > maxIdentity {
			return fmt.Errorf("a name, namespace, UID or revision has %d bytes, and at most %d are possible", len(part), maxIdentity)
		}
	}
	return nil
}

// fits returns the labels that are kept of the given ones. Nearly always all of them fit.
func (m *Meta) fits(raw []rawEntry) []rawEntry {
	bytes, longest := 0, 0
	for i := range raw {
		key, value := len(raw[i].key), len(raw[i].value)
		bytes += key + value
		longest = max(longest, key, value)
	}
	if m.hasRoom(len(raw), bytes, longest) {
		return raw
	}
	return m.cut(raw)
}

// hasRoom reports whether more labels fit: their number, their bytes in all, and the bytes of their longest word.
func (m *Meta) hasRoom(count, bytes, longest int) bool {
	return len(m.Labels)+count <= maxLabels && m.labelBytes()+bytes <= maxLabelBytes && longest <= maxWord
}

func (m *Meta) labelBytes() int {
	bytes := 0
	for _, l := range m.Labels {
		bytes += len(l.key) + len(l.value)
	}
	return bytes
}

func (e *rawEntry) tooLong() bool { return len(e.key) > maxWord || len(e.value) > maxWord }

// cut returns as many labels as fit. Labels that a kubelet can't set on its own Node come first. So a kubelet can't
// hide its role by many other labels.
func (m *Meta) cut(raw []rawEntry) []rawEntry {
	kept := make([]rawEntry, 0, maxLabels)
	count, bytes := len(m.Labels), m.labelBytes()
	for _, guarded := range [...]bool{true, false} {
		for i := range raw {
			e := &raw[i]
			switch size := len(e.key) + len(e.value); {
			case e.tooLong():
				m.skip(tooLongLabel)
			case isGuarded(e.key) != guarded:
			case count >= maxLabels || bytes+size > maxLabelBytes:
				m.skip(tooManyLabels)
			default:
				kept, count, bytes = append(kept, *e), count+1, bytes+size
			}
		}
	}
	return kept
}

// isGuarded reports whether a label is kept before others. The admission plugin NodeRestriction guards the labels
// of Kubernetes' own domains, apart from two prefixes. ExcludeLabel counts too, since decisions read it.
func isGuarded(key []byte) bool {
	domain, _, prefixed := strings.Cut(string(key), "/")
	switch {
	case string(key) == ExcludeLabel:
		return true
	case !prefixed || isInDomain(domain, "kubelet.kubernetes.io") || isInDomain(domain, "node.kubernetes.io"):
		return false
	}
	return isInDomain(domain, "kubernetes.io") || isInDomain(domain, "k8s.io")
}

func isInDomain(domain, of string) bool { return domain == of || strings.HasSuffix(domain, "."+of) }

// short returns an annotation whose value is cut at the bound.
func (m *Meta) short(e rawEntry) rawEntry {
	if string(e.key) == MachineAnnotation { // without a slash it names nothing
		e.value = e.value[:max(0, slices.Index(e.value, '/'))]
	}
	if len(e.value) > maxWord {
		m.skip(tooLongAnnotation)
		e.value = e.value[:maxWord]
	}
	return e
}
