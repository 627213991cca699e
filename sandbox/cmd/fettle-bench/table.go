package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// table renders the report for people: of several rounds the medians, and the median of the ratios of each round.
func (r *report) table() string {
	if len(r.Metal) > 0 {
		return r.metalTable()
	}
	var b strings.Builder
	r.head(&b)
	for _, part := range [][][]string{r.costs(), r.targets(), r.calls(), r.stages(), r.observed(), r.clusters(), r.decisions()} {
		if len(part) > 1 {
			b.WriteString("\n" + aligned(part))
		}
	}
	return b.String()
}

func (r *report) head(b *strings.Builder) {
	p := r.Parameters
	d := dialects()[p.Dialect]
	machines := ""
	if p.Machines > 0 {
		machines = fmt.Sprintf(", %d machines (%.1f KB each)", p.Machines, r.median(func(x *round) float64 { return float64(x.MachineBytes) / 1000 }))
	}
	pace := ""
	if p.Breaking > 0 {
		pace = fmt.Sprintf(", %d in a second", p.Breaking)
	}
	fmt.Fprintf(b, "%s: %d nodes (%.1f KB each)%s, %d heartbeats a second (%.0f reached), %d nodes break%s; rounds: %d\n",
		p.Dialect, p.Nodes, r.median(func(x *round) float64 { return float64(x.NodeBytes) / 1000 }), machines,
		p.Rate, r.median(func(x *round) float64 { return x.Heartbeats.PerSecond }), p.Broken, pace, len(r.Rounds))
	fmt.Fprintf(b, "%s: %.1f ms of processor per heartbeat, %.1f of %d cores busy in the outage, %.0f MiB at the peak\n", d.sandbox(),
		r.median(func(x *round) float64 { return perHeartbeat(x.Heartbeats.Sandbox, x.Heartbeats.Sent) }),
		r.median(func(x *round) float64 { return inFull(x.Outage.SandboxCPU) / inFull(x.Outage.Lasted) }), r.Host.Cores,
		r.median(func(x *round) float64 { return x.SandboxPeak }))
	fmt.Fprintf(b, "deadlines in the outage, a second apart: %s; %.0f %% of the processor went to other guests of the host%s\n",
		r.deadlines(), 100*r.median(func(x *round) float64 { return x.Outage.Stolen }), r.stolenFromBare())
	fmt.Fprintf(b, "%s, %d cores (%s), %.0f GiB, %s, load before the run %.1f\n",
		r.Host.At.Format(time.DateOnly), r.Host.Cores, r.Host.CPU, r.Host.Memory/1024, r.Host.Go, r.Host.Load)
}

// stolenFromBare renders the loss while the bare client sent its requests.
func (r *report) stolenFromBare() string {
	if r.Rounds[0].Bare.Count == 0 {
		return ""
	}
	return fmt.Sprintf(", and %.0f %% while a bare client sent such requests", 100*r.median(func(x *round) float64 { return x.Bare.Stolen }))
}

// deadlines renders for each round how many machines had the same deadline.
func (r *report) deadlines() string {
	rounds := make([]string, len(r.Rounds))
	for i := range r.Rounds {
		rounds[i] = strings.Trim(strings.ReplaceAll(fmt.Sprint(r.Rounds[i].Outage.Deadlines), " ", " + "), "[]")
	}
	return strings.Join(rounds, ", ")
}

// costs compares Fettle with the floor.
func (r *report) costs() [][]string {
	rows := [][]string{{"", "floor", "Fettle", "ratio", "target"}}
	compare := func(what, format, target string, of func(*round) (floor, fettle float64)) {
		floor := r.median(func(x *round) float64 { f, _ := of(x); return f })
		fettle := r.median(func(x *round) float64 { _, f := of(x); return f })
		ratio := r.median(func(x *round) float64 { a, b := of(x); return b / a })
		rows = append(rows, []string{what, fmt.Sprintf(format, floor), fmt.Sprintf(format, fettle), times(ratio), target})
	}
	limits := dialects()[r.Parameters.Dialect].limits
	compare("processor per heartbeat", "%.3f ms", limits.processor, func(x *round) (float64, float64) {
		return perHeartbeat(x.Heartbeats.Floor, x.Heartbeats.Sent), perHeartbeat(x.Heartbeats.Fettle, x.Heartbeats.Sent)
	})
	compare("peak memory", "%.1f MiB", limits.memory, func(x *round) (float64, float64) { return x.Floor.Peak, x.Fettle.Peak })
	compare("settled memory", "%.1f MiB", "", func(x *round) (float64, float64) { return x.Floor.Settled, x.Fettle.Settled })
	compare("settled memory, binary aside", "%.1f MiB", "", func(x *round) (float64, float64) { return x.Floor.SettledAnonymous, x.Fettle.SettledAnonymous })
	compare("start until in step; first decision", "%.2f s", "", func(x *round) (float64, float64) { return inFull(x.Floor.StartUp), inFull(x.Fettle.StartUp) })
	compare("processor for the start", "%.2f s", "", func(x *round) (float64, float64) { return inFull(x.Floor.StartUpCPU), inFull(x.Fettle.StartUpCPU) })
	compare("processor in an idle minute", "%.2f s", "", func(x *round) (float64, float64) { return inFull(x.Floor.IdleCPU), inFull(x.Fettle.IdleCPU) })
	compare("processor in the outage", "%.2f s", "", func(x *round) (float64, float64) { return inFull(x.Outage.FloorCPU), inFull(x.Outage.FettleCPU) })
	return append(rows,
		[]string{"heartbeat ratio by window, least to most", "", "", r.spread(), ""},
		r.lastRequests())
}

// lastRequests compares the last request of the outage with that of a client that made such requests and did nothing else.
func (r *report) lastRequests() []string {
	remedy := dialects()[r.Parameters.Dialect].remedyCall
	fettle := func(x *round) float64 { return inFull(x.Outage.lastOf(remedy.requested)) }
	bare := func(x *round) float64 { return inFull(x.Bare.Last) }
	reported := "n/a"
	if r.Rounds[0].Bare.Count > 0 {
		reported = inUnits(inSeconds(r.median(bare)))
	}
	return []string{
		fmt.Sprintf("last of %d %s requested, after its deadline", r.Parameters.Broken, remedy.many),
		reported, inUnits(inSeconds(r.median(fettle))), times(r.median(func(x *round) float64 { return fettle(x) / bare(x) })), "≤ 1.0 s",
	}
}

// spread returns how much the ratio of a heartbeat's cost varies from window to window, over all rounds.
func (r *report) spread() string {
	var ratios []float64
	for i := range r.Rounds {
		for _, w := range r.Rounds[i].Heartbeats.Windows {
			if w.Floor == 0 {
				continue
			}
			ratios = append(ratios, float64(w.Fettle)/float64(w.Floor))
		}
	}
	if len(ratios) == 0 {
		return "n/a"
	}
	return fmt.Sprintf("%.2f to %.2f", slices.Min(ratios), slices.Max(ratios))
}

// targets renders Fettle's limits beside the floor.
func (r *report) targets() [][]string {
	d := dialects()[r.Parameters.Dialect]
	rows := [][]string{
		{"", "Fettle", "target"},
		{d.repair(), fmt.Sprintf("%.2f", r.median(func(x *round) float64 { return x.Outage.PerRepair })), d.limits.writes},
		{"API writes in an idle minute, leases aside", fmt.Sprintf("%.1f", r.median(func(x *round) float64 { return float64(x.Idle.Writes) / x.Idle.Minutes })), "0"},
		{"API writes at the start, until the last of them", r.starts(), ""},
	}
	if made, known := r.callsPerPass(); known {
		rows = append(rows, []string{"API calls in a pass in which nothing has changed", fmt.Sprintf("%.1f", made), d.limits.passes})
	}
	for _, d := range r.Decide {
		if strings.HasPrefix(d.Name, "Decide/disjoint/one percent") {
			rows = append(rows, []string{"decision on 50,000 targets and 50 policies", inUnits(d.Time), "≤ 50 ms"})
		}
	}
	return rows
}

// starts renders how much Fettle wrote for objects that it saw for the first time, and how long that took.
func (r *report) starts() string {
	return fmt.Sprintf("%.0f in %s", r.median(func(x *round) float64 { return float64(x.Start.Writes) }),
		inUnits(inSeconds(r.median(func(x *round) float64 { return inFull(x.Start.Lasted) }))))
}

// repair names the repairs of the count of writes.
func (d *dialect) repair() string {
	if d.stands {
		return "API writes per repair, its end by recovery included"
	}
	return "API writes per repair"
}

// sandbox names the processes other than Fettle and the floor.
func (d *dialect) sandbox() string {
	if d.apart {
		return "both API servers with their etcds"
	}
	return "the API server with its etcd"
}

// calls renders the calls of Fettle by verb and resource, routine last.
func (r *report) calls() [][]string {
	rows := [][]string{{"API calls of Fettle", "per repair", "per idle minute"}}
	for _, routine := range []bool{false, true} {
		of := func(t *traffic) calls {
			if routine {
				return t.Routine
			}
			return t.Calls
		}
		names := map[string]bool{}
		for i := range r.Rounds {
			for name := range of(&r.Rounds[i].Outage.traffic) {
				names[name] = true
			}
			for name := range of(&r.Rounds[i].Idle.traffic) {
				names[name] = true
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			perRepair := r.median(func(x *round) float64 { return float64(of(&x.Outage.traffic)[name]) / float64(r.Parameters.Broken) })
			perMinute := r.median(func(x *round) float64 { return float64(of(&x.Idle.traffic)[name]) / x.Idle.Minutes })
			rows = append(rows, []string{name, fmt.Sprintf("%.3f", perRepair), fmt.Sprintf("%.1f", perMinute)})
		}
	}
	return rows
}

// stages renders the steps of a repair as seen from outside.
func (r *report) stages() [][]string {
	rows := [][]string{{"after the deadline of its " + dialects()[r.Parameters.Dialect].remedyCall.noun, "count", "median", "p99", "last"}}
	for i, s := range r.Rounds[0].Outage.Stages {
		of := func(what func(distribution) seconds) string {
			return inUnits(inSeconds(r.median(func(x *round) float64 { return inFull(what(x.Outage.Stages[i].distribution)) })))
		}
		rows = append(rows, []string{
			s.Stage, strconv.Itoa(s.Count), of(func(d distribution) seconds { return d.Median }),
			of(func(d distribution) seconds { return d.P99 }), of(func(d distribution) seconds { return d.Last }),
		})
	}
	return rows
}

// observed renders Fettle's own histograms of the outage, in the first round.
func (r *report) observed() [][]string {
	rows := [][]string{{"as Fettle observes itself", "count", "mean", "median about", "p99 about"}}
	reported := map[string]summary{}
	for _, h := range r.Rounds[0].Histograms {
		reported[h.Name] = h
	}
	for _, name := range histogramNames {
		h, known := reported[name]
		if !known {
			rows = append(rows, []string{name, "n/a", "n/a", "n/a", "n/a"})
			continue
		}
		rows = append(rows, []string{name, strconv.FormatUint(h.Count, 10), inUnits(h.Mean), inUnits(h.Median), inUnits(h.P99)})
	}
	return rows
}

func (r *report) decisions() [][]string {
	rows := [][]string{{"50,000 targets and 50 policies", "time", "memory", "allocations"}}
	for _, d := range r.Decide {
		rows = append(rows, []string{strings.TrimPrefix(d.Name, "Decide/"), inUnits(d.Time), fmt.Sprintf("%.1f MiB", float64(d.Bytes)/mebibyte), strconv.FormatInt(d.Allocs, 10)})
	}
	return rows
}

// median returns the median of the rounds.
func (r *report) median(of func(*round) float64) float64 {
	values := make([]float64, len(r.Rounds))
	for i := range r.Rounds {
		values[i] = of(&r.Rounds[i])
	}
	return medianOf(values)
}

func perHeartbeat(spent seconds, sent int64) float64 {
	return float64(spent) / float64(max(sent, 1)) / float64(time.Millisecond)
}

// times renders a ratio. There is none if the kernel counted no use of the floor.
func times(ratio float64) string {
	if math.IsNaN(ratio) || math.IsInf(ratio, 0) {
		return "n/a"
	}
	return fmt.Sprintf("%.2f ×", ratio)
}

func inFull(s seconds) float64 { return time.Duration(s).Seconds() }

// inUnits renders a duration with a unit that suits it.
func inUnits(s seconds) string {
	d := time.Duration(s)
	switch {
	case d.Abs() < time.Second:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	default:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
}

// aligned lays out rows: the first column to the left, the others to the right, no space at the end of a line.
func aligned(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line.WriteString(cell + space)
			} else {
				line.WriteString("   " + space + cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}
