package cli

// bmcCheck prints the answer to fettle bmc check.
func (p *page) bmcCheck(c *BMCCheck) {
	for _, s := range c.Checks {
		word, colour := wordOf(s.State)
		p.printf("%-11s   %s   %s\n", s.Check, p.in(colour, word), s.Message)
	}
	p.printf("\n")
	if b := c.BMC; b != nil {
		p.printf("Fettle's controller: %s.\n", p.reachable(b))
		if b.Message != "" {
			p.item("%s", b.Message)
		}
	}
	p.notes(c.Notes)
	colour := green
	if c.Outcome != passed {
		colour = red
	}
	p.printf("%s\n", p.in(colour, c.Message))
}

// wordOf returns the word for the state of a check. All words have the same length.
func wordOf(state string) (string, colour) {
	switch state {
	case works:
		return "works    ", green
	case fails:
		return "fails    ", red
	case unknown:
		return "not known", yellow
	}
	return "not tried", yellow
}
