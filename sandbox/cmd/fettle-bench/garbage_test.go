package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLazily(t *testing.T) {
	cases := map[string]struct {
		set    map[string]string
		memory float64
		want   []string
	}{
		"nothing is set":         {nil, 16384, []string{"GOGC=400", "GOMEMLIMIT=9830MiB"}},
		"the pace is set":        {map[string]string{"GOGC": "100"}, 16384, []string{"GOMEMLIMIT=9830MiB"}},
		"the limit is set":       {map[string]string{"GOMEMLIMIT": "4GiB"}, 16384, []string{"GOGC=400"}},
		"both are set":           {map[string]string{"GOGC": "off", "GOMEMLIMIT": "4GiB"}, 16384, nil},
		"the memory isn't known": {nil, 0, nil},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			lookup := func(name string) (string, bool) {
				value, set := tc.set[name]
				return value, set
			}
			if diff := cmp.Diff(tc.want, lazily(lookup, tc.memory)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
