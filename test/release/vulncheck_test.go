package release

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fettle-io/fettle/test/cluster"
)

// advisory is an entry that a test adds to a database of vulnerabilities.
type advisory struct {
	id, symbol string
	// fixed is the version with the fix, or empty for none.
	fixed string
}

// A package that Fettle uses, with a function that Fettle calls and another that it does not call.
const (
	module   = "k8s.io/apimachinery"
	pack     = "k8s.io/apimachinery/pkg/apis/meta/v1"
	called   = "LabelSelectorAsSelector"
	uncalled = "ParseToLabelSelector"
)

type object = map[string]any

// database writes a database in the format of https://go.dev/doc/security/vuln/database, as a folder that can be served
// over HTTP too.
func database(t *testing.T, advisories ...advisory) string {
	t.Helper()
	const modified = "2026-01-01T00:00:00Z"
	files := map[string]any{"index/db": object{"modified": modified}}
	var vulns []object
	for _, a := range advisories {
		of := object{"id": a.id, "modified": modified}
		vulns = append(vulns, of)
		files["ID/"+a.id] = a.entry(modified)
	}
	files["index/modules"], files["index/vulns"] = []object{{"path": module, "vulns": vulns}}, vulns
	folder := t.TempDir()
	for name, content := range files {
		write(t, filepath.Join(folder, name+".json"), content)
	}
	return folder
}

func (a advisory) entry(modified string) object {
	events := []object{{"introduced": "0"}}
	if a.fixed != "" {
		events = append(events, object{"fixed": a.fixed})
	}
	return object{
		"schema_version": "1.3.1", "id": a.id, "modified": modified, "published": modified, "summary": "an error that a test has made up",
		"affected": []object{{
			"package": object{"name": module, "ecosystem": "Go"}, "ranges": []object{{"type": "SEMVER", "events": events}},
			"ecosystem_specific": object{"imports": []object{{"path": pack, "symbols": []string{a.symbol}}}},
		}},
		"database_specific": object{"url": "https://pkg.go.dev/vuln/" + a.id},
	}
}

// write writes JSON plain and compressed.
func write(t *testing.T, path string, content any) {
	t.Helper()
	text, err := json.Marshal(content)
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(text); err != nil {
		t.Fatalf("compressing: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatalf("compressing: %v", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatalf("making a folder: %v", err)
	}
	for name, content := range map[string][]byte{path: text, path + ".gz": packed.Bytes()} {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			t.Fatalf("writing: %v", err)
		}
	}
}

// answer is the output of hack/vulncheck, and its line in the summary of .ci/run.
type answer struct {
	passes bool
	output string
	note   string
}

// vulncheck runs hack/vulncheck on a package that reads selectors.
func vulncheck(t *testing.T, database, without string, env ...string) answer {
	t.Helper()
	notes := filepath.Join(t.TempDir(), "notes")
	cmd := exec.Command(filepath.Join(cluster.Root(), "hack", "vulncheck"), cluster.Tool(t, "govulncheck"), database, without, "./internal/specparse")
	cmd.Env = append(append(os.Environ(), "NOTES="+notes), env...)
	output, err := cmd.CombinedOutput()
	note, _ := os.ReadFile(notes)
	return answer{passes: err == nil, output: string(output), note: string(note)}
}

func TestVulnerabilities(t *testing.T) {
	found := database(t, advisory{id: "GO-9999-0001", symbol: called})
	harmless := database(t, advisory{id: "GO-9999-0002", symbol: uncalled}, advisory{id: "GO-9999-0003", symbol: called, fixed: "0.1.0"})
	served := httptest.NewServer(http.FileServer(http.Dir(found)))
	defer served.Close()
	cases := map[string]struct {
		database string
		passes   bool
		says     string
	}{
		"a function that is called":          {found, false, "GO-9999-0001"},
		"the same, from a database at a URL": {served.URL, false, "specparse.go"},
		"not called, and fixed":              {harmless, true, "0 vulnerabilities"},
		"a folder that does not exist":       {filepath.Join(t.TempDir(), "none"), false, "is not a vulnerability database"},
		"a folder that is no database":       {t.TempDir(), false, "is not a vulnerability database"},
		"a URL where there is no database":   {served.URL + "/none", false, "unrecognized vulndb format"},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			got := vulncheck(t, tc.database, "skip")
			if got.passes != tc.passes || got.note != "" || !strings.Contains(got.output, tc.says) {
				t.Errorf("passes: %t, want %t; it notes %q and says\n%s\nwant %q in it", got.passes, tc.passes, got.note, got.output, tc.says)
			}
		})
	}
}

// TestWithoutADatabase: the output names what was not checked. It passes only where the caller accepts that.
func TestWithoutADatabase(t *testing.T) {
	const nowhere = "HTTPS_PROXY=http://127.0.0.1:1"
	if got := vulncheck(t, "", "fail", nowhere); got.passes || !strings.Contains(got.output, "NOT CHECKED") || !strings.Contains(got.output, "Set VULNDB") {
		t.Errorf("passes: %t; it says\n%s", got.passes, got.output)
	}
	if got := vulncheck(t, "", "skip", nowhere); !got.passes || !strings.Contains(got.output, "NOT CHECKED") || !strings.HasPrefix(got.note, "NOT CHECKED") {
		t.Errorf("passes: %t; it notes %q and says\n%s", got.passes, got.note, got.output)
	}
}
