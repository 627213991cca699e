package cli

import (
	"slices"
	"strconv"
	"time"

	"github.com/fettle-io/fettle/internal/core"
)

// Evidence is how one power cycle of a repair fenced the node. It outlives the PowerRemediation.
type Evidence struct {
	Remediation Reference `json:"remediation"`
	PowerCycle  int       `json:"powerCycle,omitempty"`
	// Method is PowerOff or NewBoot, and missing without a proof.
	Method string `json:"method,omitempty"`
	// BMC is the name of the BMC, and Protocol how Fettle spoke to it.
	BMC      string `json:"bmc,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	// BootIDBefore is the boot ID before the first command. BootIDAfter proves the new boot, or the node is back under it.
	BootIDBefore string `json:"bootIDBefore,omitempty"`
	BootIDAfter  string `json:"bootIDAfter,omitempty"`
	// Commanded is when the power was commanded off, and Proven when the node was proven to have stopped. Released is when its
	// workload was released, and Back when the node was Ready again.
	Commanded *time.Time `json:"commandedAt,omitempty"`
	Proven    *time.Time `json:"provenAt,omitempty"`
	Released  *time.Time `json:"releasedAt,omitempty"`
	Back      *time.Time `json:"backAt,omitempty"`
}

func evidenceOf(recorded []core.Evidence) []Evidence {
	var out []Evidence
	for i := range recorded {
		e := &recorded[i]
		out = append(out, Evidence{
			Remediation: reference(e.Request), PowerCycle: e.Cycle, Method: e.Method, BMC: e.Means, Protocol: e.Protocol,
			BootIDBefore: e.BootIDBefore, BootIDAfter: e.BootIDAfter,
			Commanded: instant(e.Commanded), Proven: instant(e.Proven), Released: instant(e.Released), Back: instant(e.Back),
		})
	}
	return out
}

// evidence prints how the node was fenced by remediations that are gone. A remediation that still exists says more itself.
func (p *page) evidence(recorded []Evidence, standing []Request) {
	gone := slices.DeleteFunc(slices.Clone(recorded), func(e Evidence) bool {
		return slices.ContainsFunc(standing, func(r Request) bool { return r.UID == e.Remediation.UID })
	})
	if len(gone) == 0 {
		return
	}
	p.head("Fenced by remediation objects that are gone")
	for i := range gone {
		e := &gone[i]
		p.item("%s", e.remediation())
		p.item("  %s", p.proofOf(e))
		if times := p.timesOf(e); times != "" {
			p.item("  %s", times)
		}
	}
}

func (e *Evidence) remediation() string {
	text := e.Remediation.Kind + " " + qualified(e.Remediation)
	if e.PowerCycle > 0 {
		text += ", power cycle " + strconv.Itoa(e.PowerCycle)
	}
	return text + byBMC(e.BMC, e.Protocol)
}

// byBMC names a BMC and how Fettle speaks to it, to append to a text.
func byBMC(name, protocol string) string {
	if name == "" {
		return ""
	}
	if protocol == "" {
		return ", by BMC " + name
	}
	return ", by BMC " + name + " (" + protocol + ")"
}

// proofOf says why the node was known to have stopped, and under which boot IDs it ran.
func (p *page) proofOf(e *Evidence) string {
	text := p.in(yellow, "not proven to have stopped")
	if e.Method != "" {
		text = p.in(green, "proven to have stopped") + " by " + e.Method + " " + p.when(e.Proven)
	}
	if e.BootIDBefore != "" {
		text += "; boot ID " + e.BootIDBefore + " before the first command"
	}
	if e.BootIDAfter != "" {
		text += "; boot ID " + e.BootIDAfter + " after"
	}
	return text
}

// timesOf says when the power was commanded off, the workload released and the node back, as far as that is known.
func (p *page) timesOf(e *Evidence) string {
	text := ""
	for _, t := range []struct {
		what string
		at   *time.Time
	}{{"power commanded off ", e.Commanded}, {"workload released ", e.Released}, {"node back ", e.Back}} {
		if t.at == nil {
			continue
		}
		if text != "" {
			text += "; "
		}
		text += t.what + p.when(t.at)
	}
	return text
}
