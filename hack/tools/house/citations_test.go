package main

import (
	"slices"
	"testing"
)

func TestCitations(t *testing.T) {
	page := "# A page\n\n## Healthy delay\n\n```sh\n# no heading\n```\n"
	for name, tc := range map[string]struct {
		reason, file, text string
		want               []string
	}{
		"a section that exists":        {"", "a.go", "// (docs/p.md#healthy-delay).", nil},
		"a page that exists":           {"", "a.go", "// docs/p.md", nil},
		"a section that is missing":    {"", "a.go", "\n// (docs/p.md#delay).", []string{"a.go:2: docs/p.md#delay"}},
		"a page that is missing":       {"", "a.go", "// docs/q.md#delay", []string{"a.go:1: docs/q.md#delay"}},
		"the second of two":            {"", "a.go", "// (docs/p.md#a-page, docs/p.md#b-page)", []string{"a.go:1: docs/p.md#b-page"}},
		"a comment in a code block":    {"it is no heading", "a.sh", "# docs/p.md#no-heading", []string{"a.sh:1: docs/p.md#no-heading"}},
		"a URL":                        {"it is another repository's", "a.go", "// https://example.com/docs/q.md#delay", nil},
		"a placeholder":                {"it names no page", "a.md", "`docs/<name>.md`", nil},
		"a link to a section":          {"", "docs/r/a.md", "[x](../p.md#healthy-delay)", nil},
		"a link to a missing section":  {"", "docs/r/a.md", "[x](../p.md#delay)", []string{"docs/r/a.md:1: ../p.md#delay"}},
		"a link to a missing page":     {"", "docs/r/a.md", "[x](p.md)", []string{"docs/r/a.md:1: p.md"}},
		"a link within the page":       {"", "docs/a.md", "# One\n[x](#one) [y](#two)", []string{"docs/a.md:2: #two"}},
		"a link in a code block":       {"it is an example", "docs/a.md", "```\n[x](#two)\n```", nil},
		"a link to a URL":              {"", "docs/a.md", "[x](https://example.com/p.md#two)", nil},
		"a link in a file of Go":       {"only pages have links", "a.go", "// [x](q.md)", nil},
		"a second heading of its name": {"as GitHub numbers them", "docs/a.md", "# One\n# One\n[x](#one-1) [y](#one-2)", []string{"docs/a.md:3: #one-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := citations(tree{"docs/p.md": page, tc.file: tc.text}); !slices.Equal(got, tc.want) {
				t.Errorf("%s\nwant %q, have %q", tc.reason, tc.want, got)
			}
		})
	}
}

func TestOutside(t *testing.T) {
	files := tree{"a.go": "// (reference medik8s 2.11)\n// an owner reference 2\n// seed 003\n// seed 7", "b.go": "// design, section 7"}
	want := []string{"a.go:1: reference medik8s 2", "a.go:3: seed 003", "b.go:1: design, section 7"}
	if got := outside(files); !slices.Equal(got, want) {
		t.Errorf("want %q, have %q", want, got)
	}
}

func TestSlug(t *testing.T) {
	for title, want := range map[string]string{
		"Healthy delay":           "healthy-delay",
		"`maxUnhealthy`, by hand": "maxunhealthy-by-hand",
		"See [a page](p.md) now":  "see-a-page-now",
		"I14: a_b - c":            "i14-a_b---c",
	} {
		if got := slug(title); got != want {
			t.Errorf("%q: want %q, have %q", title, want, got)
		}
	}
}
