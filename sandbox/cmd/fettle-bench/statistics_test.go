package main

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDistributionOf(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100-i) * time.Millisecond
	}
	cases := map[string]struct {
		durations []time.Duration
		want      distribution
	}{
		"nothing":                {nil, distribution{}},
		"one is all of them":     {hundred[:1], distribution{1, seconds(hundred[0]), seconds(hundred[0]), seconds(hundred[0])}},
		"a hundred, in disorder": {hundred, distribution{100, seconds(50 * time.Millisecond), seconds(99 * time.Millisecond), seconds(100 * time.Millisecond)}},
		"two: the median is one of them": {
			[]time.Duration{time.Second, 3 * time.Second},
			distribution{2, seconds(time.Second), seconds(3 * time.Second), seconds(3 * time.Second)},
		},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, distributionOf(tc.durations)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestMedianOf(t *testing.T) {
	if got := medianOf([]float64{3, 1, 2}); got != 2 {
		t.Errorf("the median of three is the one in the middle, not %v", got)
	}
	if got := medianOf([]float64{4, 1, 2, 3}); got != 2.5 {
		t.Errorf("the median of four is between the two in the middle, not %v", got)
	}
	if got := medianOf(nil); !math.IsNaN(got) {
		t.Errorf("nothing has no median, but got %v", got)
	}
}

func TestSecondsAsJSON(t *testing.T) {
	body, err := json.Marshal(map[string]seconds{"a": seconds(1500 * time.Millisecond), "b": seconds(-time.Microsecond), "c": 0})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"a":1.5,"b":-0.000001,"c":0}`; string(body) != want {
		t.Errorf("got %s, want %s", body, want)
	}
}

func TestBrokenAreSpread(t *testing.T) {
	for _, p := range []parameters{
		{Nodes: 5000, Machines: 5000, Broken: 200}, {Nodes: 10, Machines: 7, Broken: 3}, {Nodes: 4, Machines: 4, Broken: 4}, {Nodes: 9, Machines: 9, Broken: 1},
	} {
		var broken []int
		for i := range p.Nodes {
			if p.broken(i) {
				broken = append(broken, i)
			}
		}
		if len(broken) != p.Broken || broken[len(broken)-1] >= p.Machines {
			t.Errorf("%d of %d machines should be broken, but these are: %v", p.Broken, p.Machines, broken)
		}
		for i := 1; i < len(broken); i++ {
			if gap := broken[i] - broken[i-1]; gap > p.Machines/p.Broken+1 {
				t.Errorf("there are %d machines between two broken ones of %d in %d", gap, p.Broken, p.Machines)
			}
		}
	}
}

func TestParametersAreChecked(t *testing.T) {
	good := parameters{Dialect: "openshift", Nodes: 5, Machines: 5, Rate: 1, Broken: 1, Idle: seconds(time.Second), Heartbeats: seconds(time.Second), Rounds: 1}
	if err := good.validate(); err != nil {
		t.Fatalf("these are fine: %v", err)
	}
	cases := map[string]func(*parameters){
		"an unknown dialect":        func(p *parameters) { p.Dialect = "esperanto" },
		"machines without nodes":    func(p *parameters) { p.Machines = 6 },
		"no machine":                func(p *parameters) { p.Machines = 0 },
		"more broken than machines": func(p *parameters) { p.Broken = 6 },
		"nothing broken":            func(p *parameters) { p.Broken = 0 },
		"no heartbeat":              func(p *parameters) { p.Rate = 0 },
		"a pace below zero":         func(p *parameters) { p.Breaking = -1 },
		"no round":                  func(p *parameters) { p.Rounds = 0 },
		"no time to be idle":        func(p *parameters) { p.Idle = 0 },
		"no time for heartbeats":    func(p *parameters) { p.Heartbeats = 1 },
	}
	for sentence, spoil := range cases {
		t.Run(sentence, func(t *testing.T) {
			p := good
			spoil(&p)
			if p.validate() == nil {
				t.Errorf("%+v should be refused", p)
			}
		})
	}
}
