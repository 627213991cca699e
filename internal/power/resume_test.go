package power

import (
	"testing"
	"time"
)

// TestResumeFrom: refused logins count on for the same credentials, and for no others.
func TestResumeFrom(t *testing.T) {
	now := time.Date(2026, time.August, 3, 12, 0, 0, 0, time.UTC)
	given := func(password string) Credentials {
		c, err := NewCredentials("user", password)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	host := func(c Credentials) *Host { return NewHost(Config{Now: func() time.Time { return now }}, c) }
	old := host(given("a"))
	old.Resume(3, now.Add(time.Minute))
	for password, want := range map[string]int{"a": 3, "b": 0} {
		h := host(given(password))
		h.ResumeFrom(old)
		if h.Refused() != want || h.HeldUntil().IsZero() != (want == 0) {
			t.Errorf("password %s: %d are refused, held until %v", password, h.Refused(), h.HeldUntil())
		}
	}
}
