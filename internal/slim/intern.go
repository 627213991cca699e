package slim

import "sync"

// maxGeneration bounds each generation of each part of a table: well above the number of words and labels that a fleet shares.
const maxGeneration = 4096

// maxShared is how long a word may be to be shared, in bytes. The longest keys, values and types of conditions that
// kubelets and the usual labellers of nodes write have about 80.
const maxShared = 128

// shared is what all decoding shares: the methods that decode have no other place for it.
var shared = table{words: make(map[string]string), labels: make(map[label]*label)} //nolint:gochecknoglobals // see there

// table keeps one copy of what many objects have: types and statuses of conditions, labels. A part that is full becomes
// the past one, and a string that comes again is taken over from there. So a table stays small whatever comes, and words
// that come once can't drive out words that come all the time; objects keep what they have. Its users hold mu.
type table struct {
	mu     sync.Mutex
	words  map[string]string
	labels map[label]*label
	// pastWords and pastLabels are what words and labels were before.
	pastWords  map[string]string
	pastLabels map[label]*label
	// labelBuffer is for the labels of the object that is being decoded, and empty otherwise.
	labelBuffer []rawEntry
}

// word returns the shared copy of a word. It allocates only when the word is new, or too long to be shared.
func (t *table) word(w []byte) string {
	if known, ok := t.words[string(w)]; ok {
		return known
	}
	return t.addWord(string(w))
}

// addWord returns the shared copy of a word, and makes this one the copy when it is new.
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

// rawLabel is label of bytes that are not the caller's to keep. It allocates only when the label is new, or too long to
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
