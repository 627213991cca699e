package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"
)

// finish writes the results and prints them.
func (c *leaseCosts) finish(out string, w io.Writer) error {
	if out != "" {
		text, err := json.MarshalIndent(c, "", "  ")
		if err != nil {
			return fmt.Errorf("encoding the results: %w", err)
		}
		if err := os.WriteFile(out, append(text, '\n'), 0o600); err != nil {
			return fmt.Errorf("writing the results: %w", err)
		}
	}
	_, err := io.WriteString(w, c.table())
	return err
}

// table renders the results. All nodes together renew as often as the times between renewals say.
func (c *leaseCosts) table() string {
	cores := func(r renewals, every time.Duration) float64 {
		return time.Duration(r.CPU).Seconds() * float64(c.Nodes) / every.Seconds()
	}
	row := func(name string, r renewals, every time.Duration) []string {
		return []string{name, fmt.Sprint(r.Sent), fmt.Sprintf("%.0f", r.PerSecond), fmt.Sprintf("%.2f ms", time.Duration(r.CPU).Seconds()*1000),
			fmt.Sprintf("%.0f", float64(c.Nodes)/every.Seconds()), fmt.Sprintf("%.2f", cores(r, every))}
	}
	rows := [][]string{
		{"", "sent", "a second", "processor of one", fmt.Sprintf("%d nodes: a second", c.Nodes), "cores"},
		row("Leases of kubelets, each 10 s (the floor)", c.Kubelets, kubeletRenews),
		row("Leases of agents, each 5 s", c.Agents, agentRenews),
	}
	witness := c.Witness.Cores / max(c.Agents.PerSecond, 1)
	return aligned(rows) + fmt.Sprintf("\nLease of an agent: %d bytes; one renewal costs %.2f × that of a kubelet, and all of them %.2f ×\n\n"+
		"%s\nan agent: %.1f MiB, %.4f cores; a witness: %.1f MiB, %.4f cores at %.0f renewals a second, so %.3f cores for %d nodes\n"+
		"%s, %d cores (%s), %.0f GiB, %s, load before the run %.1f\n", c.Bytes,
		float64(c.Agents.CPU)/float64(c.Kubelets.CPU), cores(c.Agents, agentRenews)/cores(c.Kubelets, kubeletRenews),
		readsTable(c.Reads, c.Nodes), c.Plain.Memory, c.Plain.Cores, c.Witness.Memory, c.Witness.Cores, c.Agents.PerSecond,
		witness*float64(c.Nodes)/agentRenews.Seconds(), c.Nodes,
		c.Host.At.Format(time.DateOnly), c.Host.Cores, c.Host.CPU, c.Host.Memory/1024, c.Host.Go, c.Host.Load)
}
