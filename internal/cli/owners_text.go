package cli

// ownerAnswer prints the answer of an owner with a request, and the rules of the owner.
func (p *page) ownerAnswer(a *OwnerAnswer) {
	if a == nil || (!a.Requested && len(a.Rules) == 0) {
		return
	}
	name := a.Owner.Kind + " " + a.Owner.Name
	p.head("Its owner")
	switch {
	case !a.Requested:
	case a.Reason == "":
		p.item("%s got the request to replace it %s, and %s.", name, p.when(a.Since), p.in(yellow, "has not answered"))
	default:
		p.item("%s says %s since %s: %s", name, p.in(yellow, a.Reason), p.when(a.Since), a.Message)
	}
	for _, r := range a.Rules {
		p.item("%s.", r)
	}
	if a.Unknown != "" {
		p.item("%s: %s.", p.in(yellow, "Can't tell all of that"), a.Unknown)
	}
	if len(a.Waits) == 0 {
		return
	}
	p.head("Its owner waits, since")
	for i := range a.Waits {
		w := &a.Waits[i]
		p.item("%s", w.Message)
		if w.Until != nil {
			p.item("  over at %s", p.when(w.Until))
		}
		if w.Advice != "" {
			p.item("  sooner: %s", w.Advice)
		}
	}
}
