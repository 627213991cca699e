package pass_test

import (
	"errors"
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
	case "lease": // lease NAME HOLDER: who holds the lease of the node
		w.leases[rest[0]+"-node"] = rest[1]
	case "change": // change POLICY: no watch shows it
		w.changed[rest[0]] = true
	case "fail", "lose", "mend": // fail CALL: from now on it fails; lose CALL: it is granted and fails; mend CALL
		line := strings.Join(rest, " ")
		w.fail[line], w.lose[line] = words[0] == "fail", words[0] == "lose"
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
		w.passes(out)
	default:
		return errors.New("no such command")
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
		case "then":
			p.Steps = append(p.Steps, policy(name, value).Steps...)
		default:
			return fmt.Errorf("no such setting: %s", key)
		}
	}
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
	w.targets = append(w.targets, m)
	return nil
}

// passes makes the calls of one pass in the order in which they are returned, and prints them with their stages.
func (w *world) passes(out *strings.Builder) {
	p := w.begins()
	var calls []pass.Call
	for calls = p.Calls(); len(calls) > 0; calls = append(calls[1:], p.Calls()...) {
		c := calls[0]
		r := w.answers(c)
		fmt.Fprintf(out, "%s: %s: %s\n", c.Stage, callName(c), answerText(&r, c.Kind))
		p.Done(c, r)
	}
	for _, errs := range p.Failures() {
		for _, err := range errs {
			fmt.Fprintf(out, "failed: %s\n", err)
		}
	}
	for _, r := range p.Decision().Refusals {
		fmt.Fprintf(out, "%s held by %s\n", p.Cluster().Targets[r.Target].ID.Name, r.Gate)
	}
	next := "never"
	if at := p.Next(); !at.IsZero() {
		next = "in " + at.Sub(w.now).String()
	}
	fmt.Fprintf(out, "next pass: %s\n", next)
	if !p.Over() {
		out.WriteString("the pass is not over\n")
	}
}
