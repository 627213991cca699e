package cli

import (
	"strings"
	"testing"
)

// TestSubjects: a kind is named as kubectl takes it, with a group and a version or without.
func TestSubjects(t *testing.T) {
	cases := map[string]struct {
		args              []string
		kind, name, group string
	}{
		"with a slash":           {[]string{"machine/a"}, "machine", "a", ""},
		"apart":                  {[]string{"machine", "a"}, "machine", "a", ""},
		"plural":                 {[]string{"machines/a"}, "machine", "a", ""},
		"with its group":         {[]string{"machines.machine.openshift.io/a"}, "machine", "a", "machine.openshift.io"},
		"a node in short":        {[]string{"no", "a"}, "node", "a", ""},
		"nodes":                  {[]string{"nodes/a"}, "node", "a", ""},
		"a repair in short":      {[]string{"rep/a-1"}, "repair", "a-1", ""},
		"repairs":                {[]string{"Repairs", "a-1"}, "repair", "a-1", ""},
		"nodes' checks":          {[]string{"nhc/a"}, "nodehealthcheck", "a", ""},
		"machines' checks":       {[]string{"MachineHealthChecks", "a"}, "machinehealthcheck", "a", ""},
		"checks of a group":      {[]string{"mhc.cluster.x-k8s.io/a"}, "machinehealthcheck", "a", "cluster.x-k8s.io"},
		"checks of a version":    {[]string{"mhc.v1beta1.machine.openshift.io/a"}, "machinehealthcheck", "a", "machine.openshift.io"},
		"of the oldest version":  {[]string{"mhc.v0.example.org/a"}, "machinehealthcheck", "a", "example.org"},
		"of a later version":     {[]string{"mhc.v9.example.org/a"}, "machinehealthcheck", "a", "example.org"},
		"of a group of one word": {[]string{"mhc.v1/a"}, "machinehealthcheck", "a", "v1"},
		"v is no version":        {[]string{"mhc.v.example.org/a"}, "machinehealthcheck", "a", "v.example.org"},
		"nor is a name with v":   {[]string{"mhc.vote.example.org/a"}, "machinehealthcheck", "a", "vote.example.org"},
		"nor v with a hyphen":    {[]string{"mhc.v-1.example.org/a"}, "machinehealthcheck", "a", "v-1.example.org"},
		"nor v with a colon":     {[]string{"mhc.v:.example.org/a"}, "machinehealthcheck", "a", "v:.example.org"},
		"nor another letter":     {[]string{"mhc.x1.example.org/a"}, "machinehealthcheck", "a", "x1.example.org"},
		"nor nothing":            {[]string{"mhc..example.org/a"}, "machinehealthcheck", "a", ".example.org"},
		"another kind":           {[]string{"pod/a"}, "", "", ""},
		"no name":                {[]string{"machine"}, "", "", ""},
		"an empty name":          {[]string{"machine/"}, "", "", ""},
		"two names":              {[]string{"machine/a", "b"}, "", "", ""},
		"a name with a slash":    {[]string{"machine/ns/a"}, "", "", ""},
		"a name with no kind":    {[]string{"a"}, "", "", ""},
		"apart, with its slash":  {[]string{"machine", "ns/a"}, "", "", ""},
	}
	for sentence, tc := range cases {
		got, err := readSubject(tc.args)
		if got.kind != tc.kind || got.name != tc.name || got.group != tc.group || (err != nil) != (tc.kind == "") {
			t.Errorf("%s: %+v, %v", sentence, got, err)
		}
		if got.isCheck() != strings.HasSuffix(tc.kind, "healthcheck") {
			t.Errorf("%s: whether it is a health check is %t", sentence, got.isCheck())
		}
	}
}
