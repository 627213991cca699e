package specparse

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/lenient"
	"github.com/fettle-io/fettle/internal/sanitize"
)

// Duration reads a Go duration that is not negative. An empty text is 0.
func Duration(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("is %s; give a duration such as 300s, 10m or 1h30m", lenient.Quote(s))
	}
	return d, nil
}

var amountPattern = regexp.MustCompile(`^[0-9]{1,9}%?$`)

// Amount reads a number, or a percentage from 0% to 100%.
func Amount(s string) (core.Amount, error) {
	digits, percent := strings.CutSuffix(s, "%")
	n, err := strconv.Atoi(digits)
	if err != nil || !amountPattern.MatchString(s) || (percent && n > 100) {
		return core.Amount{}, fmt.Errorf("is %s; give a number such as 2 or a percentage such as 40%%, at most 100%%", lenient.Quote(s))
	}
	return core.Amount{Number: n, Percent: percent}, nil
}

// InFlight reads the annotation for how many targets may be repaired at a time: an amount, or "unlimited".
func InFlight(annotations map[string]string, key string, fallback core.Amount) (core.Amount, error) {
	v, set := annotations[key]
	switch {
	case !set:
		return fallback, nil
	case v == "unlimited":
		return core.Unlimited(), nil
	}
	a, err := Amount(v)
	if err != nil {
		return core.Amount{}, fmt.Errorf("annotation %s %w, or unlimited", key, err)
	}
	return a, nil
}

// PositiveDuration reads an annotation that is a duration above zero.
func PositiveDuration(annotations map[string]string, key string, fallback time.Duration) (time.Duration, error) {
	v, set := annotations[key]
	if !set {
		return fallback, nil
	}
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("annotation %s is %s; give a duration above zero, such as 10s or 10m", key, lenient.Quote(v))
	}
	return d, nil
}

// never is the value for a limit that does not apply.
const never = "never"

// maxFailures bounds the failures in a row after which a pool is given up.
const maxFailures = 1000

// GiveUp reads two annotations: after how many failures in a row a pool is given up, and when a user has resumed
// repairs. The fallback applies without a number. 0 stands for never.
func GiveUp(annotations map[string]string, afterKey, resumedKey string, fallback int) (after int, resumed time.Time, err error) {
	after = fallback
	var badNumber, badTime error
	switch v, set := annotations[afterKey]; {
	case !set:
	case v == never:
		after = 0
	default:
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > maxFailures {
			badNumber = fmt.Errorf("annotation %s is %s; give a number from 1 to %d, or never", afterKey, lenient.Quote(v), maxFailures)
			break
		}
		after = n
	}
	if v, set := annotations[resumedKey]; set {
		at, err := time.Parse(time.RFC3339, v)
		if err != nil {
			badTime = fmt.Errorf("annotation %s is %s; give the present time, such as 2026-01-31T12:00:00Z (date -u +%%FT%%TZ prints it)", resumedKey, lenient.Quote(v))
		}
		resumed = at
	}
	return after, resumed, errors.Join(badNumber, badTime)
}

// DryRun reads an annotation that is "true" or "false". Any other value is an error and counts as true.
func DryRun(annotations map[string]string, key string) (bool, error) {
	switch v, set := annotations[key]; {
	case !set || v == "false":
		return false, nil
	case v == "true":
		return true, nil
	default:
		return true, fmt.Errorf("annotation %s is %s; give \"true\" or \"false\"", key, lenient.Quote(v))
	}
}

// maxSelectorFault bounds the quoted error about a selector.
const maxSelectorFault = 300

// Selector reads a label selector. An invalid one selects nothing.
func Selector(s *metav1.LabelSelector) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing(), fmt.Errorf("is not a label selector (%s); give one such as {matchLabels: {role: worker}}", sanitize.Line(maxSelectorFault, err.Error()))
	}
	return selector, nil
}

// SameSelector reports whether two selectors are written the same. The selector of nothing, which stands for
// an invalid one, has the same text as the selector of everything. So both are compared apart.
func SameSelector(a, b labels.Selector) bool {
	return labels.MatchesNothing(a) == labels.MatchesNothing(b) && a.String() == b.String()
}

// WrongType returns the text about a field of the wrong type. Kind is the kind as kubectl explain takes it.
func WrongType(w lenient.Problem, kind string) string {
	return fmt.Sprintf("%s is %s, which is of the wrong type; \"kubectl explain %s.%s\" says what to give", w.Field, w.Value, kind, w.Field)
}

// MaxProblems bounds the text about the faults of a health check, which may have any number of them, in bytes.
const MaxProblems = 2048

// JoinProblems joins the faults of a health check into one line. It is empty if there are none.
func JoinProblems(problems []string) string {
	return sanitize.Line(MaxProblems, strings.Join(problems, "; "))
}

// ErrorLines returns the lines of all errors that are not nil.
func ErrorLines(problems ...error) []string {
	if err := errors.Join(problems...); err != nil {
		return strings.Split(err.Error(), "\n")
	}
	return nil
}
