package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/fettle-io/fettle/test/cluster"
)

// panicVariable names the file in which a test writes the namespace whose fleet panics.
const panicVariable = "FETTLE_TEST_PANICS"

// planted is a part of a build of Fettle that only this test makes.
const planted = `package capi

import "os"

func panicAsPlanted(namespace string) {
	if of, err := os.ReadFile(os.Getenv("` + panicVariable + `")); err == nil && string(of) == namespace {
		panic("the sky falls")
	}
}
`

// panicky returns the files of that build: the fleets of Cluster API panic as they observe.
func (l *load) panicky() map[string]string {
	l.t.Helper()
	const file, where = "internal/dialect/capi/fleet.go", "func (f *Fleet) Observe() (core.Observation, error) {\n"
	text, err := os.ReadFile(filepath.Join(cluster.Root(), file))
	l.must("reading a file of Fettle", err)
	before, after, found := strings.Cut(string(text), where)
	if !found {
		l.t.Fatalf("%s has no line %q", file, where)
	}
	return map[string]string{
		file: before + where + "\tpanicAsPlanted(f.cluster.Namespace)\n" + after, "internal/dialect/capi/planted.go": planted,
	}
}

// panics: passes over one fleet panic. That is told and counted, and repeated after pauses that double. Other fleets go on in the same
// process, and the one that panics does so when it panics no more.
func (l *load) panics() {
	falls, other := l.outdated[3], l.outdated[4]
	file := filepath.Join(l.t.TempDir(), "panics")
	l.t.Setenv(panicVariable, file)
	l.waits.Stop(l.t)
	l.leads = l.starts(func(flags ...string) *cluster.Fettle { return l.StartChanged(l.t, l.panicky(), flags...) })
	falls.repairs("m-01")
	l.must("having a fleet panic", os.WriteFile(file, []byte(falls.name), 0o600))
	made, _ := falls.marked()
	falls.longBroken([]string{"m-02"})
	l.Eventually(l.t, "three panics are counted, and told", func(context.Context) error {
		counted, told := l.leads.series()[l.panicsOf(falls)], l.panicsTold(falls)
		if counted < 3 || told < 3 {
			return fmt.Errorf("%g are counted, and %d told", counted, told)
		}
		return nil
	})
	other.repairs("m-01")
	if now, _ := falls.marked(); now != made {
		l.t.Error("a machine was marked whose fleet panics")
	}
	if counted := l.leads.series()[l.panicsOf(other)]; counted > 0 {
		l.t.Errorf("%g panics are counted of a fleet that does not panic", counted)
	}
	if log := l.leads.Log(l.t); !strings.Contains(log, "the sky falls") || !strings.Contains(log, "planted.go") {
		l.t.Error("the log does not say what has panicked, and where")
	}
	l.must("having no fleet panic", os.Remove(file))
	falls.wantMarked(made + 1)
}

func (l *load) panicsOf(f *faulty) string {
	return fmt.Sprintf("fettle_panics_total{fleet=%q}", f.name+"/"+prod)
}

// panicsTold returns how many lines of the log tell of a panic of a fleet.
func (l *load) panicsTold(f *faulty) (lines int) {
	for line := range strings.Lines(l.leads.Log(l.t)) {
		if strings.Contains(line, "a pass panicked") && strings.Contains(line, fmt.Sprintf("%q:%q", "fleet", f.name+"/"+prod)) {
			lines++
		}
	}
	return lines
}
