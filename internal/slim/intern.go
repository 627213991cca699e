package slim

import "sync"

// maxGeneration bounds each generation of each part of a table. It is well above the number of words and labels
// that the nodes of a cluster share.
const maxGeneration = 4096

// maxShared is the length of the longest shared word, in bytes. Keys, values and types of conditions by kubelets
// and the usual labellers have at most about 80.
const maxShared = 128

// shared is the table of all decoding. The methods that decode have no other place for it.
var shared = table{words: make(map[string]string), labels: make(map[label]*label)} //nolint:gochecknoglobals // see there

// table stores one copy of each word and label that many objects have. A part that is full becomes the past
// generation. A string in use then moves to the new generation. So a table stays small, and rare words don't
// displace frequent ones. Objects keep their strings. Users of a table hold mu.
type table struct {
	mu     sync.Mutex
	words  map[string]string
	labels map[label]*label
	// pastWords and pastLabels are the past generations.
	pastWords  map[string]string
	pastLabels map[label]*label
	// labelBuffer is for the labels of the object that is being decoded, and empty otherwise.
	labelBuffer []rawEntry
}

// release takes the labels that were read into the buffer, and stores their memory as the next buffer. A larger one than
// an object needs is dropped, together with the buffer that it outgrew, since both refer to the bytes of the object.
func (t *table) release(read []rawEntry) {
	clear(read)
	t.labelBuffer = read
	if cap(read) > 2*maxLabels {
		t.labelBuffer = nil
	}
}

// word returns the shared copy of a word. It allocates only if the word is new, or too long to be shared.
func (t *table) word(w []byte) string {
	if known, ok := t.words[string(w)]; ok {
		return known
	}
	return t.addWord(string(w))
}

// addWord returns the shared copy of a word, and stores a new one.
func (t *table) addWord(w string) string {
	if known, ok := t.words[w]; ok {
		return known
	}
	if len(w) > maxShared {
		return w
	}
	if known, ok := t.pastWords[w]; ok {
		w = known
	}
	if len(t.words) >= maxGeneration {
		t.words, t.pastWords = make(map[string]string), t.words
	}
	t.words[w] = w
	return w
}

// label returns the shared copy of a label.
func (t *table) label(l label) *label {
	if known, ok := t.labels[l]; ok {
		return known
	}
	return t.addLabel(label{t.addWord(l.key), l.value})
}

// rawLabel is label for bytes that the caller must not keep. It allocates only if the label is new, or too long to
// be shared.
func (t *table) rawLabel(key, value []byte) *label {
	if known, ok := t.labels[label{string(key), string(value)}]; ok {
		return known
	}
	return t.addLabel(label{t.word(key), string(value)})
}

func (t *table) addLabel(l label) *label {
	if len(l.key) > maxShared || len(l.value) > maxShared {
		return &l
	}
	into := &l
	if known, ok := t.pastLabels[l]; ok {
		into = known
	}
	if len(t.labels) >= maxGeneration {
		t.labels, t.pastLabels = make(map[label]*label), t.labels
	}
	t.labels[l] = into
	return into
}
