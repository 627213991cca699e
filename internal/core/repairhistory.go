package core

import "time"

// repairHistory has the repairs that back-off reads. It leaves out each repair whose end lies
// further in the future than clocks differ.
type repairHistory struct {
	// ended is the youngest ended repair of each target that left the target in place, by
	// backoffID.
	ended map[ID]int
	pools map[ID]*pool
}

// pool holds the repairs of the targets of one owner.
type pool struct {
	repairs []int
	// lastStart is when the youngest of them started.
	lastStart time.Time
}

func newRepairHistory(repairs []Repair) repairHistory {
	h := repairHistory{ended: map[ID]int{}, pools: map[ID]*pool{}}
	for i := range repairs {
		r := &repairs[i]
		if r.Misdated {
			continue
		}
		of := r.Target.backoffID()
		if last, known := h.ended[of]; r.lasted() && (!known || repairs[last].endedBefore(r)) {
			h.ended[of] = i
		}
		if r.Owner.UID != "" && r.Outcome != Recovered { // otherwise nothing was done, so nothing was replaced
			h.addToPool(i, r)
		}
	}
	return h
}

func (h *repairHistory) addToPool(repair int, r *Repair) {
	p := h.pools[r.Owner]
	if p == nil {
		p = &pool{}
		h.pools[r.Owner] = p
	}
	p.repairs = append(p.repairs, repair)
	if r.Started.After(p.lastStart) {
		p.lastStart = r.Started
	}
}
