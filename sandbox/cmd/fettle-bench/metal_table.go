package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// metalTable renders the report of bare metal: of several rounds the medians, and the median of the ratios of each round.
func (r *report) metalTable() string {
	var b strings.Builder
	r.metalHead(&b)
	for _, part := range [][][]string{r.metalFloor(), r.metalHanging(), r.metalProcessor(), r.metalCalls(), r.metalStages(0), r.metalStages(1)} {
		if len(part) > 1 {
			b.WriteString("\n" + aligned(part))
		}
	}
	return b.String()
}

func (r *report) metalHead(b *strings.Builder) {
	p := r.Parameters
	fmt.Fprintf(b, "metal: %d nodes (%.1f KB each) with a BMC each, %d heartbeats a second, %d nodes of a rack break at once; rounds: %d\n",
		p.Nodes, r.ofMetal(func(x *metalRound) float64 { return float64(x.NodeBytes) / 1000 }), p.Rate, p.Broken, len(r.Metal))
	fmt.Fprintf(b, "%d hosts on a power strip, which are powered on 5 s apart; in the second outage %d of %d BMCs hang\n", hostsOfDomain, p.Hanging, p.Broken)
	fmt.Fprintf(b, "deadlines in the outages, a second apart: %s\n", r.metalDeadlines())
	stolen := func(of func(*metalRound) float64) float64 { return 100 * r.ofMetal(of) }
	fmt.Fprintf(b, "%.0f %% and %.0f %% of the processor went to other guests of the host, and %.0f %% and %.0f %% beside the floor and the recorder\n",
		stolen(func(x *metalRound) float64 { return x.Outages[0].Stolen }), stolen(func(x *metalRound) float64 { return x.Outages[1].Stolen }),
		stolen(func(x *metalRound) float64 { return x.Floor.Stolen }), stolen(func(x *metalRound) float64 { return x.Recorder.Stolen }))
	fmt.Fprintf(b, "%s, %d cores (%s), %.0f GiB, %s, load before the run %.1f\n",
		r.Host.At.Format(time.DateOnly), r.Host.Cores, r.Host.CPU, r.Host.Memory/1024, r.Host.Go, r.Host.Load)
}

// metalDeadlines renders for each outage how many nodes had the same deadline.
func (r *report) metalDeadlines() string {
	var outages []string
	for i := range r.Metal {
		for _, o := range r.Metal[i].Outages {
			outages = append(outages, strings.Trim(strings.ReplaceAll(fmt.Sprint(o.Deadlines), " ", " + "), "[]"))
		}
	}
	return strings.Join(outages, ", ")
}

// metalFloor compares Fettle's power-offs with those of a client that does nothing else.
func (r *report) metalFloor() [][]string {
	rows := [][]string{{"power-off received by the BMC, after the deadline of its node", "floor", "recorder", "Fettle", "to floor", "to recorder", "target"}}
	for _, row := range []struct {
		name, target string
		of           func(distribution) seconds
	}{
		{"median", "", func(d distribution) seconds { return d.Median }},
		{"last of " + strconv.Itoa(r.Parameters.Broken), "≤ 2.0 s", func(d distribution) seconds { return d.Last }},
	} {
		floor := func(x *metalRound) float64 { return inFull(row.of(x.Floor.distribution)) }
		fettle := func(x *metalRound) float64 { return inFull(row.of(x.Outages[0].stage(offReceived))) }
		recorder := func(x *metalRound) float64 { return inFull(row.of(x.Recorder.distribution)) }
		ratio := func(to func(*metalRound) float64) string {
			return times(r.ofMetal(func(x *metalRound) float64 { return fettle(x) / to(x) }))
		}
		reported := func(of func(*metalRound) float64) string { return inUnits(inSeconds(r.ofMetal(of))) }
		rows = append(rows, []string{row.name, reported(floor), reported(recorder), reported(fettle), ratio(floor), ratio(recorder), row.target})
	}
	return rows
}

// metalHanging compares the hosts whose BMCs answer with and without others that hang.
func (r *report) metalHanging() [][]string {
	if r.Parameters.Hanging == 0 {
		return nil
	}
	rows := [][]string{{"the same, of BMCs that answer", "all answer", fmt.Sprintf("%d hang", r.Parameters.Hanging), "ratio"}}
	for _, row := range []struct {
		name string
		of   func(distribution) seconds
	}{
		{"median", func(d distribution) seconds { return d.Median }},
		{"last", func(d distribution) seconds { return d.Last }},
	} {
		in := func(outage int) func(*metalRound) float64 {
			return func(x *metalRound) float64 { return inFull(row.of(x.Outages[outage].stage(offReceived))) }
		}
		rows = append(rows, r.compared(row.name, in(0), in(1)))
	}
	return rows
}

// compared renders two durations and the ratio of the second to the first.
func (r *report) compared(name string, first, second func(*metalRound) float64) []string {
	return []string{
		name, inUnits(inSeconds(r.ofMetal(first))), inUnits(inSeconds(r.ofMetal(second))),
		times(r.ofMetal(func(x *metalRound) float64 { return second(x) / first(x) })),
	}
}

// metalProcessor renders the use of the processor from the last node that broke until the last power-off.
func (r *report) metalProcessor() [][]string {
	rows := [][]string{{"processor until the last power-off", "per repair"}}
	for _, row := range []struct {
		name string
		of   func(metalCPU) seconds
	}{
		{"the API server with its etcd", func(c metalCPU) seconds { return c.Sandbox }},
		{"Fettle", func(c metalCPU) seconds { return c.Fettle }},
		{"the BMCs, the kubelets and the watcher", func(c metalCPU) seconds { return c.BMCs }},
	} {
		spent := r.ofMetal(func(x *metalRound) float64 { return inFull(row.of(x.Outages[0].CPU)) })
		rows = append(rows, []string{row.name, inUnits(inSeconds(spent / float64(r.Parameters.Broken)))})
	}
	return rows
}

// metalCalls renders the calls of Fettle in the first outage by verb and resource.
func (r *report) metalCalls() [][]string {
	rows := [][]string{{"API calls of Fettle per repair", "until the last power-off", "in all"}}
	names := map[string]bool{}
	for i := range r.Metal {
		for name := range r.Metal[i].Outages[0].All.Calls {
			names[name] = true
		}
	}
	per := func(of func(*metalOutage) int) string {
		return fmt.Sprintf("%.3f", r.ofMetal(func(x *metalRound) float64 { return float64(of(&x.Outages[0])) / float64(r.Parameters.Broken) }))
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		rows = append(rows, []string{
			name, per(func(o *metalOutage) int { return o.UntilOff.Calls[name] }), per(func(o *metalOutage) int { return o.All.Calls[name] }),
		})
	}
	return append(rows, []string{
		"writes", per(func(o *metalOutage) int { return o.UntilOff.Writes }), per(func(o *metalOutage) int { return o.All.Writes }),
	})
}

// metalStages renders the steps of the repairs of one outage.
func (r *report) metalStages(outage int) [][]string {
	title := "after the deadline of its node"
	if outage > 0 {
		title = fmt.Sprintf("the same while %d BMCs hang, of the others", r.Parameters.Hanging)
	}
	rows := [][]string{{title, "count", "median", "p99", "last"}}
	if outage > 0 && r.Parameters.Hanging == 0 {
		return rows
	}
	for i, s := range r.Metal[0].Outages[outage].Stages {
		of := func(what func(distribution) seconds) string {
			return inUnits(inSeconds(r.ofMetal(func(x *metalRound) float64 { return inFull(what(x.Outages[outage].Stages[i].distribution)) })))
		}
		rows = append(rows, []string{
			s.Stage, strconv.Itoa(s.Count), of(func(d distribution) seconds { return d.Median }),
			of(func(d distribution) seconds { return d.P99 }), of(func(d distribution) seconds { return d.Last }),
		})
	}
	return rows
}

// ofMetal returns the median of the rounds.
func (r *report) ofMetal(of func(*metalRound) float64) float64 {
	values := make([]float64, len(r.Metal))
	for i := range r.Metal {
		values[i] = of(&r.Metal[i])
	}
	return medianOf(values)
}
