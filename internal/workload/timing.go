package workload

import "time"

// Timing is how often things are done. The zero Timing is that of production.
type Timing struct {
	// ProbeAfter is how long a cluster may be silent before it is probed, and ProbeTimeout what it has to answer then. Together
	// they are how soon a cluster that stops answering is no longer believed.
	ProbeAfter, ProbeTimeout time.Duration
	// SecretCheck is how often the Secret is read to see whether it has changed.
	SecretCheck time.Duration
	// WatchSilence is how long a watch may bring nothing. API servers send a bookmark about once a minute.
	WatchSilence time.Duration
	// MinPause and MaxPause are the pauses between attempts to connect.
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

// pause is how long to wait before the attempt after so many failures in a row, up to longest. Chance, from 0 to 1, spreads
// clusters that failed together.
func (p Timing) pause(failures int, longest time.Duration, chance float64) time.Duration {
	pause := p.MinPause
	for range failures - 1 {
		if pause *= 2; pause >= longest {
			pause = longest
			break
		}
	}
	return jitter(pause, chance)
}

// jitter gives three quarters to five quarters of a time.
func jitter(d time.Duration, chance float64) time.Duration {
	return d*3/4 + time.Duration(chance*float64(d/2))
}
