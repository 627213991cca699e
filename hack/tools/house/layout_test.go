package main

import (
	"slices"
	"strings"
	"testing"
)

func TestWide(t *testing.T) {
	long := strings.Repeat("word ", 20) + "words"
	for name, tc := range map[string]struct {
		page string
		want []string
	}{
		"text of 100 columns":                 {strings.Repeat("é", 50) + " " + strings.Repeat("x", 49), nil},
		"text of more":                        {"short\n\n" + long, []string{"docs/a.md:3: 105"}},
		"an item of a list":                   {"- " + long, []string{"docs/a.md:1: 107"}},
		"a row of a table":                    {"| " + long + " |", nil},
		"a heading":                           {"## " + long, nil},
		"a block of code":                     {"```\n" + long + "\n```", nil},
		"text behind code":                    {"```\ncode\n```\n" + long, []string{"docs/a.md:4: 105"}},
		"code by its indentation":             {"Run:\n\n    " + long + "\n    " + long, nil},
		"a paragraph of an item":              {"- item\n\n    " + long, []string{"docs/a.md:3: 109"}},
		"code of an item":                     {"1. item\n\n       " + long + "\n\n       " + long + "\n2. item", nil},
		"text behind code by its indentation": {"1. item\n\n       code\n\n   " + long, []string{"docs/a.md:5: 108"}},
		"an item of an item":                  {"- item\n    - " + long, []string{"docs/a.md:2: 111"}},
		"a link alone":                        {"- [" + long + "](https://example.com).", nil},
		"a link with text":                    {"See [a](https://example.com/" + strings.Repeat("x", 99) + ").", []string{"docs/a.md:1: 129"}},
		"the end of a link":                   {"[a\n  b](https://example.com/" + strings.Repeat("x", 99) + ").", nil},
		"code in a line, alone":               {"   `" + long + "`", nil},
		"code in a line with text":            {"Run `" + long + "`", []string{"docs/a.md:1: 111"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := wide(tree{"docs/a.md": tc.page}); !slices.Equal(got, tc.want) {
				t.Errorf("want %q, have %q", tc.want, got)
			}
		})
	}
}

func TestPagesAreOfDocs(t *testing.T) {
	long := strings.Repeat("word ", 26)
	files := tree{"README.md": long, "docs/adr/a.md": long, "test/a.md": long, "docs/a.txt": long}
	if got, want := wide(files), []string{"README.md:1: 130", "docs/adr/a.md:1: 130"}; !slices.Equal(got, want) {
		t.Errorf("wide: want %q, have %q", want, got)
	}
	found, err := uses(files)
	if got, want := found[longSentence], []string{"README.md:1", "docs/adr/a.md:1"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("long: want %q, have %q (%v)", want, got, err)
	}
}

func TestLongSentences(t *testing.T) {
	words := "Word " + strings.Repeat("word ", 23)
	long := words + "and more."
	for name, tc := range map[string]struct {
		page string
		want []string
	}{
		"25 words":                    {words + "end.", nil},
		"26 words":                    {long, []string{"docs/a.md:1"}},
		"two sentences":               {words + "end. " + words + "end.", nil},
		"the second, on another line": {"It ends\nhere. Not\n" + long, []string{"docs/a.md:2"}},
		"both":                        {long + "\n" + strings.ToUpper(long), []string{"docs/a.md:1", "docs/a.md:2"}},
		"an end in brackets":          {"(" + words + "end.) " + words + "end.", nil},
		"a question":                  {words + "end? " + words + "end!", nil},
		"a small letter goes on":      {words + "e.g. more", []string{"docs/a.md:1"}},
		"a dash is no word":           {words + "– end.", nil},
		"a link is a word":            {words + "[two words](a.md).", nil},
		"a link over two lines":       {words + "[two\nwords](a.md). Here\n" + long, []string{"docs/a.md:2"}},
		"code is a word":              {words + "`a b | c`.", nil},
		"a list of code is a word":    {words + "`a`, `b`,\n`c`. Here\n" + long, []string{"docs/a.md:2"}},
		"and ends a list of code":     {words + "`a`, `b` and `c`.", []string{"docs/a.md:1"}},
		"a list of tests":             {"Here. *Tests:* `TestA`; " + long + "\n" + long, []string{"docs/a.md:2"}},
		"an item of a list":           {"1. " + words + "\n2. " + words + "\n   and more.", []string{"docs/a.md:2"}},
		"a paragraph":                 {words + "\n\n" + words, nil},
		"a cell of a table":           {"| " + words + " | " + long + " |\n|---|---|\n| " + words + "|", []string{"docs/a.md:1"}},
		"a table behind a paragraph":  {words + "\n| " + words + " |\n" + words, nil},
		"a heading":                   {"# " + long + "\n" + words, nil},
		"code":                        {"```\n" + long + "\n```\n\n    " + long, nil},
		"strong text":                 {"**" + words + "end.** " + words + "end.", nil},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := uses(tree{"docs/a.md": tc.page})
			if got := found[longSentence]; err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("want %q, have %q (%v)", tc.want, got, err)
			}
		})
	}
}

func TestHeadlessClause(t *testing.T) {
	for name, tc := range map[string]struct {
		page string
		want []string
	}{
		"after a colon":     {"It ends:\nwhat follows is late.", []string{"docs/a.md:1"}},
		"after a semicolon": {"It ends.\nIt is over; what follows is late.", []string{"docs/a.md:2"}},
		"in a cell":         {"| it ends: what follows is late |", []string{"docs/a.md:1"}},
		"a question":        {"It asks: what follows?", nil},
		"after a comma":     {"It says when, what and why.", nil},
		"code":              {"See `a: what b` for it.", nil},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := uses(tree{"docs/a.md": tc.page})
			if got := found[headlessClause]; err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("want %q, have %q (%v)", tc.want, got, err)
			}
		})
	}
}

func TestHeadlessWhat(t *testing.T) {
	for name, tc := range map[string]struct {
		page string
		want []string
	}{
		"a sentence":        {"It ends.\nWhat follows is late.", []string{"docs/a.md:2"}},
		"an item of a list": {"- What follows is late", []string{"docs/a.md:1"}},
		"a cell of a table": {"| a | What follows is late |", []string{"docs/a.md:1"}},
		"a question":        {"What follows?", nil},
		"a heading":         {"# What follows", nil},
		"within a sentence": {"See what follows.", nil},
		"another word":      {"Whatever follows is late.", nil},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := uses(tree{"docs/a.md": tc.page})
			if got := found[headless]; err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("want %q, have %q (%v)", tc.want, got, err)
			}
		})
	}
}
