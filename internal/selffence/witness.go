package selffence

// Witness is what an agent knows as a witness of others.
type Witness struct {
	// Read is the revision up to which it has read all Leases, since it started. It acknowledges that by a write to the API server. Zero is
	// none: a witness that has restarted agrees to nothing before it has read the Leases.
	Read uint64
	// Away is set while it doesn't reach the API server either, or didn't lately. No proof depends on that.
	Away bool
}

// Agrees reports whether a witness agrees that a boot goes on. Lease is that of the node of the boot as the witness has read it.
func (w Witness) Agrees(l Lease, boot string) bool {
	return w.Read > 0 && w.Away && l.State == Promised && l.Promise.Boot == boot
}
