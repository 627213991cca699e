package cli

import (
	"cmp"
	"slices"
	"strings"
)

// mostSuggestions bounds the names that are suggested.
const mostSuggestions = 3

// closest returns the names that the user may have meant, the closest first. They are within an edit distance of a
// third of the word, or contain it.
func closest(word string, names []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	for _, name := range names {
		d := distance(word, name)
		contained := len(word) > 2 && strings.Contains(name, word)
		if d <= max(1, len(word)/3) || contained {
			found = append(found, candidate{name, d})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), strings.Compare(a.name, b.name))
	})
	var near []string
	for _, c := range found[:min(len(found), mostSuggestions)] {
		near = append(near, c.name)
	}
	return near
}

// distance returns the number of letters to insert, delete or replace (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
