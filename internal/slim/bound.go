package slim

import (
	"fmt"
	"slices"
	"strings"
)

// The bounds of what is kept of one object. What is beyond them is skipped, and Meta.Unread says so.
const (
	// maxConditions is how many conditions of a node are kept. Kubelets and node problem detectors write about 20.
	maxConditions = 128
	// maxLabels and maxLabelBytes are how many labels are kept, and how long they may be in all. Feature discovery
	// and virtualization together write about 300 of 15 KiB.
	maxLabels     = 1024
	maxLabelBytes = 64 << 10
	// maxWord is how long a word may be: as long as a qualified name, of which the prefix has 253 bytes and the name 63.
	maxWord = 253 + 1 + 63
	// maxIdentity is how long a name, a namespace, a UID or a revision may be.
	maxIdentity = 253
)

// The sentences about what was skipped. They name bounds and no numbers of the object, so that they stay the same while
// an object changes all the time.
const (
	tooManyConditions = "it has more than the 128 conditions that Fettle reads of a node"
	tooLongCondition  = "it has a condition whose type, status or reason is longer than the 317 bytes that Fettle reads"
	tooManyLabels     = "it has more labels than the 1024, of 65536 bytes in all, that Fettle reads of an object"
	tooLongLabel      = "it has a label whose key or value is longer than the 317 bytes that Fettle reads"
	tooLongAnnotation = "it has an annotation that Fettle reads and whose value is longer than 317 bytes"
	tooLongOwner      = "it has a reference to its controller with a word longer than the 317 bytes that Fettle reads"
)

// skip notes that a part of the object was not read. Each sentence is noted once.
func (m *Meta) skip(sentence string) {
	switch {
	case m.Unread == "":
		m.Unread = sentence
	case !strings.Contains(m.Unread, sentence):
		m.Unread += "; " + sentence
	}
}

// checkIdentity fails on what no API server gives: an object can't be told from others by the beginning of its name.
func (m *Meta) checkIdentity() error {
	for _, part := range [...]string{m.Name, m.Namespace, string(m.UID), m.ResourceVersion} {
		if len(part) > maxIdentity {
			return fmt.Errorf("a name, namespace, UID or revision has %d bytes, and at most %d are possible", len(part), maxIdentity)
		}
	}
	return nil
}

// fits returns the entries that are kept of the labels of an object that may have some already. Nearly always it has
// none, and all fit.
func (m *Meta) fits(raw []rawEntry) []rawEntry {
	bytes, long := 0, 0
	for i := range raw {
		key, value := len(raw[i].key), len(raw[i].value)
		bytes += key + value
		long = max(long, key, value)
	}
	if len(m.Labels)+len(raw) <= maxLabels && m.labelBytes()+bytes <= maxLabelBytes && long <= maxWord {
		return raw
	}
	return m.cut(raw)
}

func (m *Meta) labelBytes() int {
	bytes := 0
	for _, l := range m.Labels {
		bytes += len(l.key) + len(l.value)
	}
	return bytes
}

func (e *rawEntry) tooLong() bool { return len(e.key) > maxWord || len(e.value) > maxWord }

// cut returns as many labels as fit. Labels that a kubelet can't set on its own Node come first, so that it can't hide
// its role by the number of others.
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

// isGuarded reports whether a label is kept before others: NodeRestriction guards those of Kubernetes' own domains, apart
// from two prefixes, and decisions read ExcludeLabel.
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

// short returns an annotation whose value is not too long. Of an annotation that is too long, the key and the beginning of the value are kept.
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
