package workload

import "time"

// Pace is how often things are done. The zero Pace is that of production.
type Pace struct {
	// Probe is how long a cluster may be silent before it is probed, and Patience what it has to answer then. Together
	// they are how soon a cluster that stops answering is no longer believed.
	Probe, Patience time.Duration
	// Compare is how often the Secret is read to see whether it has changed.
	Compare time.Duration
	// Silence is how long a watch may bring nothing. API servers send a bookmark about once a minute.
	Silence time.Duration
	// First and Last are the pauses between attempts to connect.
	First, Last time.Duration
}

func (p Pace) orDefault() Pace {
	if p != (Pace{}) {
		return p
	}
	return Pace{
		Probe: 10 * time.Second, Patience: 5 * time.Second, Compare: 3 * time.Minute, Silence: 3 * time.Minute,
		First: time.Second, Last: 30 * time.Second,
	}
}

// pause is how long to wait before the attempt after so many failures in a row, up to longest. Chance, from 0 to 1, spreads
// clusters that failed together.
func (p Pace) pause(failures int, longest time.Duration, chance float64) time.Duration {
	pause := p.First
	for range failures - 1 {
		if pause *= 2; pause >= longest {
			pause = longest
			break
		}
	}
	return spread(pause, chance)
}

// spread gives three quarters to five quarters of a time.
func spread(d time.Duration, chance float64) time.Duration {
	return d*3/4 + time.Duration(chance*float64(d/2))
}
