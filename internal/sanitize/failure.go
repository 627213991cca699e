package sanitize

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// URL returns the address of a server, without a user, a password, a query and a fragment. Each of them may be secret.
func URL(raw string) string {
	address := raw
	if !strings.Contains(raw, "://") {
		address = "//" + raw
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return "an address that can't be read"
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return Line(MaxPart, strings.TrimPrefix(shown.String(), "//"))
}

// A failure is an error whose text is fit to be shown. What it wraps is not.
type failure struct {
	error

	text string
}

func (f failure) Error() string { return f.text }

func (f failure) Unwrap() error { return f.error }

// Err returns an error whose text is one line that is fit to be shown, and that wraps the given one. It is nil for nil.
func Err(err error) error {
	if err == nil {
		return nil
	}
	return failure{err, Failure(MaxMessage, err)}
}

// Reword returns an error that has another text, and wraps the given one.
func Reword(err error, text string) error { return failure{err, text} }

// Failure returns the text of an error as one line of at most so many bytes. Of an answer that is no Status of
// Kubernetes it has the code alone: clients quote the body of such an answer, and any host may have sent it.
func Failure(most int, err error) string {
	return Line(most, withoutBodies(err.Error(), err))
}

// TooLarge reports whether the API server may have refused an object for its size, or for the length of a field. Such an
// answer has one of three codes. That the store refuses an object is an error without a reason.
func TooLarge(err error) bool {
	if apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsInvalid(err) {
		return true
	}
	status, is := errors.AsType[*apierrors.StatusError](err)
	return is && status.ErrStatus.Code == http.StatusInternalServerError && status.ErrStatus.Reason == metav1.StatusReasonUnknown
}

// Report is Failure for an error that may have several lines, as one of several mistakes has.
func Report(err error) string { return Lines(MaxMessage, withoutBodies(err.Error(), err)) }

// withoutBodies replaces in a text what the error, and all that it wraps, say of answers that are no Status.
func withoutBodies(text string, err error) string {
	switch e := err.(type) { //nolint:errorlint // it looks at each error of the tree
	case *apierrors.StatusError:
		if isForeign(e) {
			return strings.ReplaceAll(text, e.Error(), foreign(e.ErrStatus.Code))
		}
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return withoutBodies(text, inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			text = withoutBodies(text, inner)
		}
	}
	return text
}

// isForeign reports whether an error was made from an answer that is no Status of Kubernetes.
func isForeign(status *apierrors.StatusError) bool {
	details := status.ErrStatus.Details
	return details != nil && slices.ContainsFunc(details.Causes, func(c metav1.StatusCause) bool {
		return c.Type == metav1.CauseTypeUnexpectedServerResponse
	})
}

func foreign(code int32) string {
	return fmt.Sprintf("the server answered with HTTP status %d and without a Status of Kubernetes; see what serves at its address", code)
}
