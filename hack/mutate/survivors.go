package main

import (
	"fmt"
	"os"
	"strings"
)

// explained holds the reason for each survivor that is meant to survive, by the mutant's key.
type explained map[string]string

// readExplained reads the file of explained survivors: a key, " -- " and the reason on each line.
func readExplained(name string) (explained, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading the explained survivors: %w", err)
	}
	return parseExplained(string(text))
}

func parseExplained(text string) (explained, error) {
	found := explained{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndex(line, " -- ")
		if at < 0 || strings.Count(line[:at], " | ") < 3 {
			return nil, fmt.Errorf("line %d of the explained survivors: want FILE | FUNCTION | OPERATOR | TEXT -- REASON", number)
		}
		key := line[:at]
		if _, twice := found[key]; twice {
			return nil, fmt.Errorf("line %d of the explained survivors: %s is explained twice", number, key)
		}
		found[key] = line[at+len(" -- "):]
	}
	return found, nil
}

// unknown returns the keys below a folder that name no mutant. Their code has changed, so their reasons say nothing.
func (e explained) unknown(dir string, mutants []*mutant) []string {
	known := map[string]bool{}
	for _, m := range mutants {
		known[m.key()] = true
	}
	var keys []string
	for key := range e {
		rest, ok := strings.CutPrefix(key, dir+"/")
		if !ok {
			continue
		}
		file, _, _ := strings.Cut(rest, " | ")
		if !strings.Contains(file, "/") && !known[key] {
			keys = append(keys, key)
		}
	}
	return keys
}
