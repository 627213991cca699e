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

// URL returns the address of a server without its user, password, query and fragment, since each may be secret.
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

// A failure is an error whose text is safe to show. The text of the wrapped error is not.
type failure struct {
	error

	text string
}

func (f failure) Error() string { return f.text }

func (f failure) Unwrap() error { return f.error }

// Err returns an error whose text is one line that is safe to show, and that wraps err. It returns nil for nil.
func Err(err error) error {
	if err == nil {
		return nil
	}
	return failure{err, Failure(MaxMessage, err)}
}

// Reword returns an error with another text that wraps err.
func Reword(err error, text string) error { return failure{err, text} }

// Failure returns the text of an error as one line of at most so many bytes. Clients quote the body of an answer
// that is no Status of Kubernetes, and any host may have sent it. Failure replaces such a quotation by the code of
// the answer.
func Failure(most int, err error) string {
	return Line(most, withoutBodies(err.Error(), err))
}

// TooLarge reports whether the API server may have refused an object for its size, or for the length of a field.
// Such an answer has one of three codes. A refusal by the store is an error without a reason.
func TooLarge(err error) bool {
	if apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsInvalid(err) {
		return true
	}
	status, is := errors.AsType[*apierrors.StatusError](err)
	return is && status.ErrStatus.Code == http.StatusInternalServerError && status.ErrStatus.Reason == metav1.StatusReasonUnknown
}

// Report returns the text of an error as Failure does, but may return several lines, such as for several mistakes.
func Report(err error) string { return Lines(MaxMessage, withoutBodies(err.Error(), err)) }

// withoutBodies replaces the texts of answers that are no Status in the text of an error and of all errors that it
// wraps.
func withoutBodies(text string, err error) string {
	switch e := err.(type) { //nolint:errorlint // each error of the tree is checked
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
