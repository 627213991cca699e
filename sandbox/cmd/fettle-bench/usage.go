package main

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/prometheus/procfs"

	"github.com/fettle-io/fettle/sandbox/stage"
)

const mebibyte = 1 << 20

// usage is what a process has used until now.
type usage struct {
	at  time.Time
	cpu time.Duration
	// resident and peak are in MiB. anonymous is resident without the pages of the binary.
	resident, anonymous, peak float64
}

// usageOf reads the kernel's counters of a process.
func usageOf(fs procfs.FS, pid int) (usage, error) {
	process, err := fs.Proc(pid)
	if err != nil {
		return usage{}, fmt.Errorf("reading what process %d uses: %w", pid, err)
	}
	stat, err := process.Stat()
	if err != nil {
		return usage{}, fmt.Errorf("reading what process %d uses: %w", pid, err)
	}
	status, err := process.NewStatus()
	if err != nil {
		return usage{}, fmt.Errorf("reading what process %d uses: %w", pid, err)
	}
	return usage{
		at: time.Now(), cpu: time.Duration(stat.CPUTime() * float64(time.Second)),
		resident: float64(status.VmRSS) / mebibyte, anonymous: float64(status.RssAnon) / mebibyte, peak: float64(status.VmHWM) / mebibyte,
	}, nil
}

// observed is a process under measurement.
type observed struct {
	*stage.Process

	fs procfs.FS
}

func (o observed) usage() (usage, error) {
	if err := o.Died(); err != nil {
		return usage{}, err
	}
	return usageOf(o.fs, o.PID())
}

// host is the machine on which the run was measured.
type host struct {
	At     time.Time `json:"at"`
	Cores  int       `json:"cores"`
	CPU    string    `json:"cpu,omitempty"`
	Memory float64   `json:"memoryMiB,omitempty"`
	Go     string    `json:"go"`
	// Load is how many other processes wanted the processor in the minute before the run.
	Load float64 `json:"loadBefore"`
}

// lookAtHost reads what the kernel reports, and leaves out the rest.
func lookAtHost() host {
	h := host{At: time.Now().UTC().Truncate(time.Second), Cores: runtime.NumCPU(), Go: runtime.Version()}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return h
	}
	if cores, err := fs.CPUInfo(); err == nil && len(cores) > 0 {
		h.CPU = cores[0].ModelName
	}
	if memory, err := fs.Meminfo(); err == nil && memory.MemTotalBytes != nil {
		h.Memory = float64(*memory.MemTotalBytes) / mebibyte
	}
	if load, err := fs.LoadAvg(); err == nil {
		h.Load = load.Load1
	}
	return h
}

// say prints the progress of the run, beside the results on standard output.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}
