package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/fettle-io/fettle/test/cluster"
)

// planted is code that only this test builds into Fettle, for a file with the namespace whose passes panic.
const planted = `package capi

import "os"

func panicAsPlanted(namespace string) {
	if of, err := os.ReadFile(%q); err == nil && string(of) == namespace {
		panic("the sky falls")
	}
}
`

// panicky returns the changed files of that build: the dialects of Cluster API panic when they observe the cluster of the
// namespace that is written in a file.
func (l *load) panicky(namespaceFile string) map[string]string {
	l.t.Helper()
	const file, where = "internal/dialect/capi/dialect.go", "func (d *Dialect) Observe() (core.Observation, error) {\n"
	text, err := os.ReadFile(filepath.Join(cluster.Root(), file))
	l.must("reading a file of Fettle", err)
	before, after, found := strings.Cut(string(text), where)
	if !found {
		l.t.Fatalf("%s has no line %q", file, where)
	}
	return map[string]string{
		file: before + where + "\tpanicAsPlanted(d.cluster.Namespace)\n" + after, "internal/dialect/capi/planted.go": fmt.Sprintf(planted, namespaceFile),
	}
}

// panics: passes over one cluster panic. Fettle reports and counts that, and retries after pauses that double. Passes
// over other clusters go on in the same process. The cluster recovers once its passes panic no more.
func (l *load) panics() {
	falls, other := l.outdated[3], l.outdated[4]
	file := filepath.Join(l.t.TempDir(), "panics")
	l.waits.Stop(l.t)
	l.leads = l.starts(func(flags ...string) *cluster.Fettle { return l.StartChanged(l.t, l.panicky(file), flags...) })
	falls.repairs("m-01")
	l.must("having a cluster panic", os.WriteFile(file, []byte(falls.name), 0o600))
	made, _ := falls.marked()
	falls.longBroken([]string{"m-02"})
	l.Eventually(l.t, "three panics are counted, and told", func(context.Context) error {
		counted, logged := l.leads.series()[l.panicsOf(falls)], l.panicsLogged(falls)
		if counted < 3 || logged < 3 {
			return fmt.Errorf("%g are counted, and %d told", counted, logged)
		}
		return nil
	})
	other.repairs("m-01")
	if now, _ := falls.marked(); now != made {
		l.t.Error("a machine was marked whose cluster panics")
	}
	if counted := l.leads.series()[l.panicsOf(other)]; counted > 0 {
		l.t.Errorf("%g panics are counted of a cluster that does not panic", counted)
	}
	if log := l.leads.Log(l.t); !strings.Contains(log, "the sky falls") || !strings.Contains(log, "planted.go") {
		l.t.Error("the log does not say what has panicked, and where")
	}
	l.must("having no cluster panic", os.Remove(file))
	falls.wantMarked(made + 1)
}

func (l *load) panicsOf(f *faulty) string {
	return fmt.Sprintf("fettle_panics_total{fleet=%q}", f.name+"/"+prod)
}

// panicsLogged returns how many lines of the log report a panic of a cluster.
func (l *load) panicsLogged(f *faulty) (lines int) {
	for line := range strings.Lines(l.leads.Log(l.t)) {
		if strings.Contains(line, "a pass panicked") && strings.Contains(line, fmt.Sprintf("%q:%q", "cluster", f.name+"/"+prod)) {
			lines++
		}
	}
	return lines
}
