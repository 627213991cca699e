package cluster

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A block of YAML in a document. Its first line is a comment with the name of a file.
var fileBlock = regexp.MustCompile("(?s)```yaml\n# ([a-z]+\\.yaml)[^\n]*\n(.*?)```")

// Documented returns the objects of a kustomization that a document shows. The kustomization builds on a folder of the
// repository, such as "config". The repository is beside it, in the folder fettle.
func Documented(t testing.TB, document, folder string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Root(), document))
	if err != nil {
		t.Fatalf("reading a document: %v", err)
	}
	blocks := fileBlock.FindAllStringSubmatch(string(text), -1)
	first := slices.IndexFunc(blocks, func(b []string) bool {
		return b[1] == "kustomization.yaml" && regexp.MustCompile(`\.\./fettle/`+folder+`[],]`).MatchString(b[2])
	})
	if first < 0 {
		t.Fatalf("%s shows no kustomization of %s", document, folder)
	}
	dir := filepath.Join(t.TempDir(), "mine")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatalf("making a folder: %v", err)
	}
	if err := os.Symlink(Root(), filepath.Join(dir, "..", "fettle")); err != nil {
		t.Fatalf("putting the repository beside it: %v", err)
	}
	for _, file := range filesOf(blocks[first:]) {
		if err := os.WriteFile(filepath.Join(dir, file[1]), []byte(file[2]), 0o600); err != nil {
			t.Fatalf("writing %s: %v", file[1], err)
		}
	}
	return kustomized(t, dir)
}

// filesOf returns a kustomization and the files that it names.
func filesOf(blocks [][]string) [][]string {
	files := slices.Clone(blocks[:1])
	for _, b := range blocks[1:] {
		if b[1] != "kustomization.yaml" && strings.Contains(blocks[0][2], b[1]) {
			files = append(files, b)
		}
	}
	return files
}
