package specparse

import (
	"errors"
	"fmt"
	"time"

	"github.com/fettle-io/fettle/api/fettle/annotation"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lenient"
)

// MaxConditions bounds the conditions of a health check, since a pass compares each target with all of them.
const MaxConditions = 100

// Backoff reads the annotations of the back-off of pools. If any of them is wrong, it returns the default and an
// error.
func Backoff(annotations map[string]string) (core.Backoff, error) {
	b := core.DefaultBackoff()
	base, badBase := PositiveDuration(annotations, annotation.BackoffBase, b.Base)
	limit, badLimit := PositiveDuration(annotations, annotation.BackoffLimit, b.Limit)
	after, resumed, badEnd := GiveUp(annotations, annotation.GiveUpAfter, annotation.ResumedAt, b.GiveUpAfter)
	if err := errors.Join(badBase, badLimit, badEnd); err != nil {
		return b, err
	}
	return core.Backoff{Base: min(base, limit), Limit: limit, GiveUpAfter: after, ResumedAt: resumed}, nil
}

// StormCooldown reads the annotation for how long repairs wait after a short circuit. If it is wrong, StormCooldown
// returns the default and an error.
func StormCooldown(annotations map[string]string) (time.Duration, error) {
	v, set := annotations[annotation.StormCooldown]
	if !set {
		return core.DefaultStormCooldown, nil
	}
	d, err := Duration(v)
	if err != nil || v == "" {
		return core.DefaultStormCooldown, fmt.Errorf("annotation %s is %s; give a duration such as 30s, or 0s for no wait", annotation.StormCooldown, lenient.Quote(v))
	}
	return d, nil
}
