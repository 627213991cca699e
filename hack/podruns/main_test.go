package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// line is a line of the log.
func line(second, node, owner string) string {
	return `{"time":"2026-05-04T03:02:` + second + `Z","node":"` + node + `","boot":"boot-of-` + node + `","namespace":"shop","name":"db-0","uid":"u","owner":"` + owner + `"}` + "\n"
}

func TestRun(t *testing.T) {
	for name, c := range map[string]struct {
		log, problem string
		wants        []string
	}{
		"a pod that has moved":   {log: line("01", "a", "db") + line("02", "a", "db") + line("03", "b", "db"), wants: []string{"shop/db-0   a      boot-of-   03:02:01.0   03:02:02.0", "shop/db-0   b "}},
		"a pod that ran twice":   {log: line("01", "a", "db") + line("02", "b", "db") + line("03", "a", "db"), problem: "shop/db-0 ran twice at a time", wants: []string{"shop/db-0   b "}},
		"pods of no StatefulSet": {log: line("01", "a", "") + line("01", "b", ""), problem: "no pod of a StatefulSet ran", wants: []string{"POD   NODE   BOOT   FROM   TO"}},
		"no log of pods":         {log: "[]\n", problem: "parsing the log"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pods.log")
			if err := os.WriteFile(file, []byte(c.log), 0o600); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			err := run(file, &out)
			if (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
				t.Errorf("the error is %v, want %q", err, c.problem)
			}
			for _, want := range c.wants {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the output lacks %q:\n%s", want, out.String())
				}
			}
		})
	}
	if err := run(filepath.Join(t.TempDir(), "missing"), os.Stdout); err == nil || !strings.Contains(err.Error(), "opening the log") {
		t.Errorf("without a file the error is %v", err)
	}
}
