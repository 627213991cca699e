package sanitize

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

func TestURL(t *testing.T) {
	for raw, want := range map[string]string{
		"https://h:6443":                         "https://h:6443",
		"https://me:secret@h:6443/k8s/a?t=s#u":   "https://h:6443/k8s/a",
		"me:secret@h":                            "h",
		"h:6443":                                 "h:6443",
		"":                                       "an address that can't be read",
		"https://h\x1b[2J":                       "an address that can't be read",
		"https://me:sec\nret@h":                  "an address that can't be read",
		"https://h/" + strings.Repeat("a", 9999): "https://h/" + strings.Repeat("a", MaxPart-len("https://h/")-len(ellipsis)) + ellipsis,
	} {
		if got := URL(raw); got != want {
			t.Errorf("%q becomes %q, want %q", raw, got, want)
		}
	}
}

// answered is the error that client-go makes from the answer of a host.
func answered(t *testing.T, code int, contentType, body string) error {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}))
	defer server.Close()
	client, err := rest.UnversionedRESTClientFor(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{
		GroupVersion: &schema.GroupVersion{Version: "v1"}, NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
	}})
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	return client.Get().AbsPath("/api/v1/nodes").MaxRetries(0).Do(t.Context()).Error()
}

// TestFailureQuotesNoForeignBody: the answer of a host that is no API server is not repeated, whatever the code.
func TestFailureQuotesNoForeignBody(t *testing.T) {
	for _, code := range []int{302, 400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 429, 500, 502, 503, 504} {
		err := fmt.Errorf("listing nodes: %w", answered(t, code, "text/plain", "root:x:0:0 \x1b[2J SECRET"))
		got := Failure(MaxMessage, err)
		if strings.Contains(got, "SECRET") || strings.Contains(got, "root") || !strings.HasPrefix(got, "listing nodes: ") || !strings.Contains(got, fmt.Sprint(code)) {
			t.Errorf("of the answer %d people are told %q", code, got)
		}
	}
}

// TestFailureLooksAtEachError: several calls may have failed at once.
func TestFailureLooksAtEachError(t *testing.T) {
	a, b := answered(t, 500, "text/plain", "SECRET a"), answered(t, 404, "text/html", "SECRET b")
	got := Failure(MaxMessage, errors.Join(errors.New("one"), fmt.Errorf("two: %w", errors.Join(a, b))))
	if strings.Contains(got, "SECRET") || !strings.HasPrefix(got, "one two: ") || !strings.Contains(got, "500") || !strings.Contains(got, "404") {
		t.Errorf("people are told %q", got)
	}
}

func TestFailureQuotesStatus(t *testing.T) {
	body := `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"the quota\n\u001b[2J is used up","reason":"Forbidden","code":403}`
	err := fmt.Errorf("listing nodes: %w", answered(t, 403, "application/json", body))
	if got, want := Failure(MaxMessage, err), `listing nodes: the quota \x1b[2J is used up`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "w") // it has details
	if got, want := Failure(MaxMessage, missing), `nodes "w" not found`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A report keeps its lines, up to the limit of a message.
func TestReport(t *testing.T) {
	if got, want := Report(errors.New("one\n\ttwo\x1b")), "one\n\ttwo\\x1b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Report(errors.New(strings.Repeat("a", MaxMessage))); len(got) != MaxMessage || strings.HasSuffix(got, ellipsis) {
		t.Errorf("a report of %d bytes becomes one of %d", MaxMessage, len(got))
	}
	if got := Report(errors.New(strings.Repeat("a", MaxMessage+1))); len(got) != MaxMessage || !strings.HasSuffix(got, ellipsis) {
		t.Errorf("a report of %d bytes becomes one of %d", MaxMessage+1, len(got))
	}
}

func TestTooLarge(t *testing.T) {
	answer := func(code int32, reason metav1.StatusReason) error {
		return fmt.Errorf("patching: %w", &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Reason: reason}})
	}
	for err, want := range map[error]bool{
		answer(413, metav1.StatusReasonRequestEntityTooLarge): true,
		answer(422, metav1.StatusReasonInvalid):               true,
		answer(500, ""):                                       true, // as of etcd
		answer(500, metav1.StatusReasonInternalError):         false,
		answer(503, ""):                                       false,
		answer(409, metav1.StatusReasonConflict):              false,
		errors.New("no route to host"):                        false,
	} {
		if got := TooLarge(err); got != want {
			t.Errorf("%+v: it is %t", err, got)
		}
	}
	if TooLarge(nil) {
		t.Error("no error is taken for one")
	}
}

func TestErr(t *testing.T) {
	if err := Err(nil); err != nil {
		t.Errorf("nil becomes %v", err)
	}
	inner := apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{Resource: "nodes"}, "a\nb", "", 0, false)
	err := Err(fmt.Errorf("reading: %w", inner))
	if !apierrors.IsNotFound(err) || !errors.Is(err, inner) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %q", err)
	}
	if got := Err(errors.New(strings.Repeat("a", 5<<20))).Error(); len(got) > MaxMessage {
		t.Errorf("its text has %d bytes", len(got))
	}
}
