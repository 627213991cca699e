// Package specparse reads what people write into health checks, whatever the API: amounts, durations, switches
// and selectors. What can't be read becomes an error that begins with how it is written and ends with what to
// give instead, so that with the name of the field before it, it is a sentence:
//
//	limit, err := specparse.Duration("soon")
//	fmt.Errorf("spec.timeout %w", err) // spec.timeout is "soon"; give a duration such as 300s, 10m or 1h30m
//
// It is pure, knows no API, and must not decide what the absence of a setting means.
package specparse
