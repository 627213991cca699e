package lean

import "sync"

// most bounds each part of a table: well above the number of words and labels that a fleet shares.
const most = 4096

// shared is what all decoding shares: the methods that decode have no other place for it.
var shared = table{words: map[string]string{}, labels: map[label]*label{}} //nolint:gochecknoglobals // see there

// table keeps one copy of what many objects have: types and statuses of conditions, labels. A part that
// is full begins anew, so that it stays small when what comes is never the same; objects keep
// what they have. Its users hold mu.
type table struct {
	mu     sync.Mutex
	words  map[string]string
	labels map[label]*label
	// room is for the labels of the object that is being decoded, and empty otherwise.
	room []rawEntry
}

// word gives the shared copy of a word. It allocates only when the word is new.
func (t *table) word(w []byte) string {
	if known, ok := t.words[string(w)]; ok {
		return known
	}
	return t.addWord(string(w))
}

// addWord gives the shared copy of a word, and makes this one the copy when it is new.
func (t *table) addWord(w string) string {
	if known, ok := t.words[w]; ok {
		return known
	}
	if len(t.words) >= most {
		clear(t.words)
	}
	t.words[w] = w
	return w
}

// label gives the shared copy of a label.
func (t *table) label(l label) *label {
	if known, ok := t.labels[l]; ok {
		return known
	}
	return t.addLabel(label{t.addWord(l.key), l.value})
}

// rawLabel is label of bytes that are not the caller's to keep. It allocates only when the label is new.
func (t *table) rawLabel(key, value []byte) *label {
	if known, ok := t.labels[label{string(key), string(value)}]; ok {
		return known
	}
	return t.addLabel(label{t.word(key), string(value)})
}

func (t *table) addLabel(l label) *label {
	if len(t.labels) >= most {
		clear(t.labels)
	}
	t.labels[l] = &l
	return &l
}
