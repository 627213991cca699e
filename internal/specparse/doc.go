// Package specparse reads the fields and annotations of health checks of any API: amounts, durations, switches and
// selectors. The error about a value says how it is written, and what to give instead. With the name of the field
// before it, the error is a sentence:
//
//	limit, err := specparse.Duration("soon")
//	fmt.Errorf("spec.timeout %w", err) // spec.timeout is "soon"; give a duration such as 300s, 10m or 1h30m
//
// The package is pure and knows no API. It must not decide what the absence of a field means.
package specparse
