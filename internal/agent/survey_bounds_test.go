package agent

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/promiselease"
	"github.com/fettle-io/fettle/internal/selffence"
)

// surveyed is a large fleet whose Leases are read by their names. It notes how many each time.
type surveyed struct {
	*crowd

	names  []string
	lists  int
	byName []int
}

func (s *surveyed) First(context.Context, int) (map[string]promiselease.Record, int, error) {
	r := promiseOfA(selffence.Promised)
	r.Promise.Witnesses = membersOf(s.names)
	return map[string]promiselease.Record{"first": r}, 5000, nil
}

func (s *surveyed) Of(_ context.Context, nodes []string) (map[string]promiselease.Record, error) {
	s.byName = append(s.byName, len(nodes))
	return nil, nil
}

func (s *surveyed) List(context.Context) (map[string]promiselease.Record, uint64, error) {
	s.lists++
	return s.all, 9, nil
}

// TestSurveys: an agent lists all Leases once it is time. It then knows how many witnesses a few Leases lack, where it has read these.
func TestSurveys(t *testing.T) {
	t.Parallel()
	for sentence, tc := range map[string]struct {
		size          int
		serves        bool
		since         time.Duration
		lists         int
		lacks, scarce int
	}{
		"not yet":                         {5, false, -1, 0, 3, 2},
		"it is time, and there is enough": {5, false, 0, 1, 0, 0},
		"it is time, and there are few":   {3, false, 0, 1, 0, 1},
		"a witness":                       {5, true, -1, 1, 0, 0},
	} {
		s := &surveyed{crowd: newCrowd(tc.size)}
		n, r := s.reviews("a", 3)
		n.Others, r.serves, r.lacks, r.scarce = s, tc.serves, 3, 1
		at := r.survey + tc.since
		n.Boottime = func() time.Duration { return at }
		_, since, err := n.readLeases(t.Context(), r, nil, 3)
		if err != nil || s.lists != tc.lists || (since > 0) != (tc.lists > 0) || r.lacks != tc.lacks || r.scarce != tc.scarce {
			t.Errorf("%s: it lists %d times, since %d, lacks %d, and %d were scarce (%v)", sentence, s.lists, since, r.lacks, r.scarce, err)
		}
		if next := at + jittered("a", 6*time.Hour); tc.lists > 0 && r.survey != next {
			t.Errorf("%s: it lists again at %s, want %s", sentence, r.survey, next)
		}
	}
}

// TestNotesEnough: the lack that a few Leases have shown counts only where all of them have shown enough.
func TestNotesEnough(t *testing.T) {
	t.Parallel()
	for enough, want := range map[bool]review{true: {lacks: 3}, false: {scarce: 2}} {
		r := review{scarce: 2, lacks: 7}
		r.noteEnough(enough, 3)
		if r.scarce != want.scarce || r.lacks != want.lacks {
			t.Errorf("enough is %t: %d were scarce, and %d lack", enough, r.scarce, r.lacks)
		}
	}
}

// TestLacking: of many nodes the first sixteen count. One more than a promise names is needed, and one more than a majority beside the control plane.
func TestLacking(t *testing.T) {
	t.Parallel()
	c := newCrowd(17)
	order := serving(c.all)
	n, r := c.reviews("x", 3)
	for _, name := range order[:16] {
		c.control[name] = true
	}
	if got := n.lacking(t.Context(), r, c.all, 3); got != 3 {
		t.Errorf("%d are lacking beside the control plane", got)
	}
	for size, want := range map[int]int{0: 4, 3: 1, 4: 0, 5: 0} {
		c := newCrowd(size)
		n, r := c.reviews("x", 3)
		if got := n.lacking(t.Context(), r, c.all, 3); got != want {
			t.Errorf("of %d nodes %d are lacking, want %d", size, got, want)
		}
	}
}

// TestReadsFiveAtATime: an agent reads the Leases of as many witnesses at a time as a promise can name.
func TestReadsFiveAtATime(t *testing.T) {
	t.Parallel()
	s := &surveyed{crowd: newCrowd(0), names: []string{"a", "b", "c", "d", "e"}}
	n, _ := s.reviews("x", 3)
	n.Others = s
	var current []string
	for i := range 20 {
		current = append(current, fmt.Sprint("current", i))
	}
	if _, _, err := n.few(t.Context(), current); err != nil || fmt.Sprint(s.byName) != "[5 5]" {
		t.Errorf("it reads %v at a time (%v)", s.byName, err)
	}
}

// TestTheLastCandidate: a node is a candidate while the hash of its name is among the 64 lowest that so many nodes have on average.
func TestTheLastCandidate(t *testing.T) {
	t.Parallel()
	for i := range 20 {
		name := fmt.Sprint("node-", i)
		sum := sha256.Sum256([]byte(name))
		most := int(uint64(64<<32) / uint64(binary.BigEndian.Uint32(sum[:])))
		if !candidate(name, most, 0) || candidate(name, most+1, 0) || !candidate(name, most+1, 1) {
			t.Errorf("%s is no candidate of %d nodes, or is one of more", name, most)
		}
	}
}

// TestTheLongestQuestion has 256 bytes.
func TestTheLongestQuestion(t *testing.T) {
	t.Parallel()
	const text = `{"boot":"a"}`
	for size, fits := range map[int]bool{256: true, 257: false} {
		var q question
		if err := decodeOnly([]byte(text+strings.Repeat(" ", size-len(text))), &q); (err == nil) != fits {
			t.Errorf("with %d bytes: %v", size, err)
		}
	}
}

// broken is a body of an answer that breaks off with its last byte.
type broken struct{ left int }

func (b *broken) Read(into []byte) (int, error) {
	count := min(len(into), b.left)
	if b.left -= count; b.left == 0 {
		return count, errNone
	}
	return count, nil
}

func (*broken) Close() error { return nil }

// RoundTrip implements http.RoundTripper.
func (b *broken) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(b)}, nil
}

// TestALongAnswerThatBreaksOff has not become too long: the agent would ask for smaller parts then.
func TestALongAnswerThatBreaksOff(t *testing.T) {
	t.Parallel()
	s := &Server{client: &http.Client{Transport: &broken{maxAnswer + 1}}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.answer(request); !errors.Is(err, errNone) || errors.Is(err, errTooLong) {
		t.Errorf("the error is %v", err)
	}
}

// TestAStateThatCanNotBeRead: people are told what has failed, and not that it is no state.
func TestAStateThatCanNotBeRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, file), 0o700); err != nil {
		t.Fatal(err)
	}
	var failed *fs.PathError
	if _, err := Directory(dir).Load("b"); !errors.As(err, &failed) {
		t.Errorf("the error is %v", err)
	}
}
