package main

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	// citation is a document with its path from the root, and perhaps a section of it. No path or URL goes before it.
	citation = regexp.MustCompile(`(?:^|[^\w./-])(docs/[\w./-]*\.md)(?:#([\w-]+))?`)
	// link is the target of a link in a page.
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// former is how documents outside of the repository were cited.
	former = regexp.MustCompile(`\breference,? (?:openshift|medik8s|cluster-api|fencing) \d|\bseed 00\d|\bdesign, section \d`)
)

// citations returns the citations and links that lead nowhere, each with its place.
func citations(files tree) []string {
	sections := map[string]map[string]bool{}
	for name, text := range files {
		if isDocument(name) {
			sections[name] = anchors(text)
		}
	}
	leads := func(document, section string) bool {
		names, exists := sections[document]
		return exists && (section == "" || names[section])
	}
	var broken []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for i, line := range strings.Split(files[name], "\n") {
			for _, match := range citation.FindAllStringSubmatch(line, -1) {
				if !leads(match[1], match[2]) {
					broken = append(broken, fmt.Sprintf("%s:%d: %s", name, i+1, joined(match[1], match[2])))
				}
			}
		}
		if isDocument(name) {
			broken = append(broken, brokenLinks(name, files[name], leads)...)
		}
	}
	return broken
}

// brokenLinks returns the links of a page to documents and sections that don't exist.
func brokenLinks(name, text string, leads func(document, section string) bool) []string {
	var broken []string
	for i, line := range prose(text) {
		for _, match := range link.FindAllStringSubmatch(line, -1) {
			document, section, _ := strings.Cut(match[1], "#")
			switch {
			case strings.Contains(document, ":"):
				continue
			case document == "":
				document = name
			case isDocument(document):
				document = path.Join(path.Dir(name), document)
			default:
				continue
			}
			if !leads(document, section) {
				broken = append(broken, fmt.Sprintf("%s:%d: %s", name, i+1, match[1]))
			}
		}
	}
	return broken
}

func joined(document, section string) string {
	if section == "" {
		return document
	}
	return document + "#" + section
}

// outside returns the citations of documents that are in no repository.
func outside(files tree) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for i, line := range strings.Split(files[name], "\n") {
			if match := former.FindString(line); match != "" {
				found = append(found, fmt.Sprintf("%s:%d: %s", name, i+1, match))
			}
		}
	}
	return found
}
