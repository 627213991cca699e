package workload

import "time"

// Timing has the times of a connection. The zero Timing stands for the defaults.
type Timing struct {
	// ProbeAfter is how long a cluster may be silent before it is probed. ProbeTimeout bounds the probe. Their sum
	// is how soon a cluster that stops answering is unknown.
	ProbeAfter, ProbeTimeout time.Duration
	// SecretCheck is the time between checks whether the Secret has changed.
	SecretCheck time.Duration
	// WatchSilence is how long a watch may be without an event. API servers send a bookmark about once a minute.
	WatchSilence time.Duration
	// MinPause and MaxPause are the shortest and the longest pause between attempts to connect.
	MinPause, MaxPause time.Duration
}

func (p Timing) orDefault() Timing {
	if p != (Timing{}) {
		return p
	}
	return Timing{
		ProbeAfter: 10 * time.Second, ProbeTimeout: 5 * time.Second, SecretCheck: 3 * time.Minute, WatchSilence: 3 * time.Minute,
		MinPause: time.Second, MaxPause: 30 * time.Second,
	}
}

// pause returns the pause after so many failures in a row, up to longest. Chance, from 0 to 1, spreads the attempts
// of clusters that failed together.
func (p Timing) pause(failures int, longest time.Duration, chance float64) time.Duration {
	pause := p.MinPause
	for range failures - 1 {
		pause = min(2*pause, longest)
	}
	return jitter(pause, chance)
}

// jitter returns three quarters to five quarters of a time.
func jitter(d time.Duration, chance float64) time.Duration {
	return d*3/4 + time.Duration(chance*float64(d/2))
}
