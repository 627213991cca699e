package agent_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fettle-io/fettle/internal/agent"
	"github.com/fettle-io/fettle/internal/selffence"
)

func state() agent.State {
	p := promised()
	p.Witnesses = selffence.Members{"a", "b", "c"}
	return agent.State{Boot: boot, Settings: settings(), Agent: selffence.AgentState{Bound: true, Granted: 7, Stated: promised(), Sent: p}}
}

func TestDirectory(t *testing.T) {
	t.Parallel()
	dir := agent.Directory(t.TempDir())
	if s, err := dir.Load(boot); err != nil || s != (agent.State{Boot: boot}) {
		t.Errorf("an empty directory has %+v (%v)", s, err)
	}
	first, second := state(), state()
	second.Condemned, second.Agent.Granted = true, 8
	for _, want := range []agent.State{first, second} {
		if err := dir.Save(want); err != nil {
			t.Fatalf("saving: %v", err)
		}
		if s, err := dir.Load(boot); err != nil || s != want {
			t.Errorf("the directory has %+v (%v), want %+v", s, err, want)
		}
	}
	other := strings.Repeat("0", 8) + boot[8:]
	if s, err := dir.Load(other); err != nil || s != (agent.State{Boot: other}) {
		t.Errorf("another boot finds %+v (%v)", s, err)
	}
	file := filepath.Join(string(dir), "state.json")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v (%v)", info, err)
	}
	entries, err := os.ReadDir(string(dir))
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v (%v)", entries, err)
	}
}

// TestUnreadableState: a state that can't be read is an error, and not the state of a first start.
func TestUnreadableState(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "state.json")
	text, err := agent.Encode(state())
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][]byte{{}, []byte("{}\n"), text[:len(text)-1], append(bytes.Clone(text), '\n'), bytes.Repeat([]byte(" "), 1<<20)} {
		if err := os.WriteFile(file, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := agent.Directory(dir).Load(boot); err == nil {
			t.Errorf("%.40q is read as %+v", bad, s)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	if s, err := agent.Directory(dir).Load(boot); err == nil {
		t.Errorf("a directory is read as %+v", s)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, file); err != nil {
		t.Fatal(err)
	}
	if s, err := agent.Directory(dir).Load(boot); err == nil {
		t.Errorf("a link to itself is read as %+v", s)
	}
}

// TestSaveFails: a state that can't be stored is an error, and the stored state stays.
func TestSaveFails(t *testing.T) {
	t.Parallel()
	dir := agent.Directory(t.TempDir())
	if err := dir.Save(state()); err != nil {
		t.Fatal(err)
	}
	draft := filepath.Join(string(dir), "state.json.new")
	if err := os.Mkdir(draft, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]agent.State{"no boot ID": {}, "no file": {Boot: boot, Creates: true}} {
		if err := dir.Save(s); err == nil {
			t.Errorf("%s: it is stored", name)
		}
	}
	if s, err := dir.Load(boot); err != nil || s != state() {
		t.Errorf("the directory has %+v (%v)", s, err)
	}
	if err := os.Remove(draft); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(string(dir), "state.json")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(file, "other"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, s := range []agent.State{state(), {Boot: boot}} {
		if err := dir.Save(s); err == nil {
			t.Errorf("a directory is replaced by %+v", s)
		}
	}
}

func TestState(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*agent.State)
		valid  bool
	}{
		"as it is":            {func(*agent.State) {}, true},
		"first start":         {func(s *agent.State) { *s = agent.State{Boot: boot} }, true},
		"condemned":           {func(s *agent.State) { s.Condemned = true }, true},
		"creates":             {func(s *agent.State) { s.Creates = true }, true},
		"nothing stated":      {func(s *agent.State) { s.Agent.Stated = selffence.Promise{} }, true},
		"timed":               {func(s *agent.State) { s.Agent.Sent.Timed, s.Agent.Sent.Times.Validity = true, settings().Validity }, true},
		"timed without times": {func(s *agent.State) { s.Agent.Sent.Timed = true }, false},
		"negative validity":   {func(s *agent.State) { s.Agent.Sent.Times.Validity = -1 }, false},
		"negative timeout":    {func(s *agent.State) { s.Agent.Sent.Times.Watchdog = -1 }, false},
		"nothing sent":        {func(s *agent.State) { s.Agent.Sent = selffence.Promise{} }, false},
		"other boot stated":   {func(s *agent.State) { s.Agent.Stated.Boot = "other" }, false},
		"other boot sent":     {func(s *agent.State) { s.Agent.Sent.Boot = "other" }, false},
		"unbound":             {func(s *agent.State) { s.Agent.Bound = false }, false},
		"longest boot ID":     {func(s *agent.State) { *s = agent.State{Boot: strings.Repeat("b", 253)} }, true},
		"too long a boot ID":  {func(s *agent.State) { *s = agent.State{Boot: strings.Repeat("b", 254)} }, false},
		"longest witness":     {func(s *agent.State) { s.Agent.Sent.Witnesses[0] = strings.Repeat("b", 253) }, true},
		"too long a witness":  {func(s *agent.State) { s.Agent.Sent.Witnesses[4] = strings.Repeat("b", 254) }, false},
		"invalid settings":    {func(s *agent.State) { s.Settings.Renewal = 1 }, false},
	} {
		s := state()
		c.change(&s)
		text, err := agent.Encode(s)
		if (err == nil) != c.valid {
			t.Errorf("%s: %v", name, err)
		}
		if got, err := agent.Decode(text); c.valid && (err != nil || got != s) {
			t.Errorf("%s is read as %+v (%v)", name, got, err)
		}
	}
}

// TestLargestState: each state that may be stored can be read.
func TestLargestState(t *testing.T) {
	t.Parallel()
	s := state()
	name := strings.Repeat(`"`, 253) // takes two bytes
	for i := range s.Agent.Sent.Witnesses {
		s.Agent.Sent.Witnesses[i], s.Agent.Stated.Witnesses[i] = name, name
	}
	s.Settings.Watchdog.Device = strings.Repeat(`"`, 256)
	text, err := agent.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := agent.Decode(text); err != nil || got != s {
		t.Errorf("a state of %d bytes is read as %+v (%v)", len(text), got, err)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*agent.Settings)
		valid  bool
	}{
		"as they are":            {func(*agent.Settings) {}, true},
		"shortest renewal":       {func(s *agent.Settings) { s.Renewal = 1e9 }, true},
		"too short a renewal":    {func(s *agent.Settings) { s.Renewal = 1e9 - 1 }, false},
		"longest renewal":        {func(s *agent.Settings) { s.Renewal = 3600e9 }, true},
		"too long a renewal":     {func(s *agent.Settings) { s.Renewal = 3600e9 + 1 }, false},
		"too short a validity":   {func(s *agent.Settings) { s.Validity = 1 }, false},
		"too short a timeout":    {func(s *agent.Settings) { s.Watchdog.Timeout = 1 }, false},
		"no device":              {func(s *agent.Settings) { s.Watchdog.Device = "" }, false},
		"longest device":         {func(s *agent.Settings) { s.Watchdog.Device = strings.Repeat("d", 256) }, true},
		"too long a device":      {func(s *agent.Settings) { s.Watchdog.Device = strings.Repeat("d", 257) }, false},
		"most witnesses":         {func(s *agent.Settings) { s.Witnesses = 5 }, true},
		"too many witnesses":     {func(s *agent.Settings) { s.Witnesses = 6 }, false},
		"fewer than no witness":  {func(s *agent.Settings) { s.Witnesses = -1 }, false},
		"what nothing demands":   {func(s *agent.Settings) { *s = agent.Settings{} }, false},
		"a reset without a path": {func(s *agent.Settings) { s.Reset = true }, true},
	} {
		s := settings()
		c.change(&s)
		if s.Valid() != c.valid {
			t.Errorf("%s: valid is %t", name, s.Valid())
		}
	}
}

// TestLock: two agents never use the same directory at a time.
func TestLock(t *testing.T) {
	t.Parallel()
	dir := agent.Directory(filepath.Join(t.TempDir(), "run", "fettle"))
	unlock, err := dir.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(string(dir)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory is %v (%v)", info, err)
	}
	if _, err := dir.Lock(); !errors.Is(err, agent.ErrLocked) {
		t.Errorf("locking it again: %v", err)
	}
	unlock()
	if unlock, err = dir.Lock(); err != nil {
		t.Fatalf("locking it after it was unlocked: %v", err)
	}
	unlock()
	if _, err := agent.Directory(filepath.Join(string(dir), "lock", "of")).Lock(); err == nil || errors.Is(err, agent.ErrLocked) {
		t.Errorf("a file is locked as a directory: %v", err)
	}
	if err := os.Remove(filepath.Join(string(dir), "lock")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(string(dir), "lock"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Lock(); err == nil || errors.Is(err, agent.ErrLocked) {
		t.Errorf("a directory is locked as a file: %v", err)
	}
}

// TestWithdrawnIsStored: where a state that promises nothing can't be stored, the one before is removed. Otherwise the next process would keep its promise, and
// find it overdue.
func TestWithdrawnIsStored(t *testing.T) {
	t.Parallel()
	nothing := agent.State{Boot: boot, Settings: settings()}
	condemned, creates, promises := nothing, nothing, state()
	condemned.Condemned, creates.Creates, promises.Agent.Granted = true, true, 9
	for what, c := range map[string]struct {
		next   agent.State
		stored bool
	}{
		"promises nothing": {nothing, true}, "condemned": {condemned, false}, "creates the Lease": {creates, false}, "promises": {promises, false},
	} {
		dir := t.TempDir()
		if err := agent.Directory(dir).Save(state()); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(dir, "state.json.new"), 0o700); err != nil { // so that no other state can be written
			t.Fatal(err)
		}
		want := state()
		if c.stored {
			want = agent.State{Boot: boot}
		}
		for range 2 {
			if err := agent.Directory(dir).Save(c.next); (err == nil) != c.stored {
				t.Errorf("%s: storing: %v", what, err)
			}
			if got, err := agent.Directory(dir).Load(boot); err != nil || got != want {
				t.Errorf("%s: the directory has %+v (%v)", what, got, err)
			}
		}
	}
}

// TestSettingsAreStored: a state that binds to nothing is stored with its settings.
func TestSettingsAreStored(t *testing.T) {
	t.Parallel()
	dir, want := agent.Directory(t.TempDir()), agent.State{Boot: boot, Settings: settings()}
	if err := dir.Save(want); err != nil {
		t.Fatal(err)
	}
	if s, err := dir.Load(boot); err != nil || s != want {
		t.Errorf("the directory has %+v (%v)", s, err)
	}
}
