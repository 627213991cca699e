package writers

import (
	"slices"
	"strings"
	"testing"
)

// FuzzTrim: a trimmed history names the same writers.
func FuzzTrim(f *testing.F) {
	f.Add(`{"f:status":{"f:healthy":{},"f:conditions":{"k:{\"type\":\"Allowed\"}":{}}}}`)
	f.Add(`{"f:status":null}`)
	f.Add(`[`)
	f.Fuzz(func(t *testing.T, fields string) {
		if strings.Count(fields, `"`) > maxKeys {
			t.Skip("beyond the bounds")
		}
		u := writtenBy(entry("m", "status", fields))
		before := managersOf(u)
		Trim(u)
		if after := managersOf(u); !slices.Equal(before, after) {
			t.Errorf("writers are %q, and once trimmed %q", before, after)
		}
	})
}
