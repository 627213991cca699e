package pass_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected output of the transcripts in testdata; read the difference")

// TestTranscripts plays the transcripts in testdata. A transcript is a paragraph of intent and then scenes, with an empty line between.
// A scene is commands, one a line, a line "----", and all that they print. The commands are those of world.do.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { play(t, file) })
	}
}

func play(t *testing.T, file string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	scenes := strings.Split(strings.TrimRight(string(content), "\n"), "\n\n")
	if !strings.HasPrefix(scenes[0], "# ") {
		t.Fatal("the transcript does not open with its intent, a paragraph that begins with #")
	}
	w := newWorld()
	for i, scene := range scenes {
		if strings.HasPrefix(scene, "# ") {
			continue
		}
		commands, want, _ := strings.Cut(scene, "----")
		var out strings.Builder
		for command := range strings.Lines(commands) {
			if err := w.do(&out, strings.Fields(command)); err != nil {
				t.Fatalf("%s: %v", command, err)
			}
		}
		got := strings.TrimRight(out.String(), "\n")
		scenes[i] = strings.TrimRight(strings.TrimRight(commands, "\n")+"\n----\n"+got, "\n")
		if !*rewrite && strings.Trim(want, "\n") != got {
			t.Errorf("scene %d\n%s\ngot:\n%s\nwant:\n%s\n", i, commands, got, want)
		}
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(strings.Join(scenes, "\n\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// do obeys one command.
func (w *world) do(out *strings.Builder, words []string) error {
	switch rest := words[1:]; words[0] {
	case "policy": // policy NAME delete|ask|hand-over [in-flight=N] [holder=NAME] [limit=DURATION] [then=REMEDY]
		return w.addPolicy(rest[0], rest[1], rest[2:])
	case "machine": // machine NAME [control-plane] [sick[=DURATION]]: a member of all policies so far
		return w.addMachine(rest[0], rest[1:])
	case "live": // live NAME well|sick|gone: how the node is read live
		w.live[rest[0]] = map[string]core.Node{
			"well": node(rest[0], "True", w.now), "sick": node(rest[0], "False", w.now.Add(-time.Hour)), "gone": {State: core.NodeGone, Name: rest[0] + "-node"},
		}[rest[1]]
	case "quorum": // quorum NAME lost|unknown|survives
		w.quorum[rest[0]] = map[string]core.Tri{"lost": core.No, "unknown": core.Unknown, "survives": core.Yes}[rest[1]]
	case "lease": // lease NAME HOLDER: who holds the lease of the node, and renewed it a minute ago
		w.leases[rest[0]+"-node"] = lease{rest[1], w.now.Add(-time.Minute), w.now.Add(time.Hour)}
	case "change": // change POLICY [CALL]: no watch shows it; before the answer to a call if one is given
		if len(rest) > 1 {
			w.changes[strings.Join(rest[1:], " ")] = rest[0]
			return nil
		}
		w.changed[rest[0]] = true
	case "fail", "lose", "refuse", "mend": // fail CALL: from now on it fails; lose CALL: it is granted and fails; refuse CALL: it answers no; mend CALL
		w.fates[strings.Join(rest, " ")] = map[string]ending{"fail": {name: "fails"}, "lose": {granted: true}, "refuse": {no: true}}[words[0]]
	case "slow": // slow DURATION CALL: it takes so long
		d, err := time.ParseDuration(rest[0])
		w.slow[strings.Join(rest[1:], " ")] = d
		return err
	case "clock": // clock right|wrong [CALL]: whether it agrees, from now on or from the answer to a call on
		agrees := map[string]core.Tri{"right": core.Yes, "wrong": core.No}[rest[0]]
		if len(rest) == 1 {
			w.agrees = agrees
			return nil
		}
		w.turns[strings.Join(rest[1:], " ")] = agrees
	case "touch": // touch NAME: another writer changes its repair
		for i := range w.stored {
			if w.stored[i].Target.Name == rest[0] {
				w.stored[i].Revision++
			}
		}
	case "record": // record NAME: another leader records a repair of it, which no cache shows
		w.create(&core.NewRepair{Name: core.RepairName(id("Machine", rest[0]), 1), Target: machine(rest[0]), Policy: w.policies[0], Steps: w.policies[0].Steps, Started: w.now})
	case "wait": // wait DURATION
		d, err := time.ParseDuration(rest[0])
		w.now = w.now.Add(d)
		return err
	case "see": // the caches catch up
		w.catchUp()
	case "restart":
		w.state = &pass.State{}
	case "pass":
		for _, line := range w.runs(-1, ending{}).lines {
			fmt.Fprintln(out, line)
		}
	case "outcomes": // outcomes [NAME...]: all ways in which the calls of the next pass may end that are about them, or about no target
		for _, line := range w.outcomes(rest) {
			fmt.Fprintln(out, line)
		}
	default:
		return w.arrange(words[0], rest)
	}
	return nil
}

func (w *world) addPolicy(name, remedy string, settings []string) error {
	p := policy(name, remedy)
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		switch key {
		case "in-flight":
			n, err := strconv.Atoi(value)
			if err != nil {
				return err
			}
			p.MaxInFlight = core.Count(n)
		case "holder":
			p.Holder = value
		case "limit":
			d, err := time.ParseDuration(value)
			if err != nil {
				return err
			}
			p.Steps[0].Limit = d
		case "max-unhealthy":
			n, err := strconv.Atoi(value)
			if err != nil {
				return err
			}
			p.ShortCircuit.MaxUnhealthy, p.StormCooldown = core.Count(n), time.Minute
		case "gone-delay": // how long a node must have been gone
			d, err := time.ParseDuration(value)
			if err != nil {
				return err
			}
			p.Criteria.NodeGoneDelay = d
		case "missing": // a condition of nodes that must not be missing for so long
			d, err := time.ParseDuration(value)
			if err != nil {
				return err
			}
			p.Criteria.Groups = []core.ConditionGroup{{Tests: []core.ConditionTest{{Type: "Agent", Missing: true}}, For: d}}
		case "then":
			p.Steps = append(p.Steps, policy(name, value).Steps...)
		default:
			return fmt.Errorf("no such setting: %s", key)
		}
	}
	w.dialectOf[p.ID] = w.dialect
	w.policies = append(w.policies, p)
	return nil
}

func (w *world) addMachine(name string, settings []string) error {
	m := machine(name)
	for _, s := range settings {
		switch key, value, _ := strings.Cut(s, "="); key {
		case "control-plane":
			m.ControlPlane = true
		case "sick":
			since := time.Hour
			if value != "" {
				d, err := time.ParseDuration(value)
				if err != nil {
					return err
				}
				since = d
			}
			m.Node = node(name, "False", w.now.Add(-since))
		default:
			return fmt.Errorf("no such setting: %s", key)
		}
	}
	for i := range w.policies {
		w.policies[i].Members = append(w.policies[i].Members, len(w.targets))
	}
	w.targets, w.targetDialects = append(w.targets, m), append(w.targetDialects, w.dialect)
	return nil
}
