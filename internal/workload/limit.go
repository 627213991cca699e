package workload

import (
	"context"
	"io"
	"mime"
	"net/http"
)

// protobuf is the content type in which nodes travel. Decoding it takes a known multiple of its size, unlike JSON.
const protobuf = "application/vnd.kubernetes.protobuf"

type limitKey struct{}

// withLimit returns a context whose requests have their own bound on answers.
func withLimit(ctx context.Context, most int64) context.Context {
	return context.WithValue(ctx, limitKey{}, most)
}

// limitedTransport is a transport that bounds answers. It wraps the transport that decompresses them.
type limitedTransport struct {
	next http.RoundTripper
	// most bounds the answer to a request whose context has no limit.
	most int64
}

// RoundTrip implements http.RoundTripper.
func (l limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	watches := isWatch(r)
	if watches { // a compressed watch could be expanded without end
		r = r.Clone(r.Context())
		r.Header.Set("Accept-Encoding", "identity")
	}
	resp, err := l.next.RoundTrip(r)
	if err != nil {
		return nil, err //nolint:wrapcheck // http.Client wraps it
	}
	if err := refuseAnswer(resp, watches); err != nil {
		resp.Body.Close()
		return nil, err
	}
	if most := l.limitOf(resp, watches); most > 0 {
		resp.Body = &limitedBody{ReadCloser: resp.Body, left: most, most: most}
	}
	return resp, nil
}

func isWatch(r *http.Request) bool { return r.URL.Query().Get("watch") == "true" }

// refuseAnswer returns an error for an answer that must not be read.
func refuseAnswer(resp *http.Response, watches bool) error {
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return errRedirect
	case resp.Header.Get("Content-Encoding") != "": // the transport removes the encoding that it has undone
		return errEncoding
	case watches && resp.StatusCode < 400 && !isProtobuf(resp.Header.Get("Content-Type")):
		return errEncoding // frames of JSON have no length that could be bounded before they are read
	}
	return nil
}

func isProtobuf(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && kind == protobuf
}

// limitOf returns the bound of an answer. It is 0 for a watch, whose events are bounded one by one.
func (l limitedTransport) limitOf(resp *http.Response, watches bool) int64 {
	if resp.StatusCode >= 300 {
		return errorBytes
	}
	if watches {
		return 0
	}
	if most, set := resp.Request.Context().Value(limitKey{}).(int64); set {
		return most
	}
	return l.most
}

// limitedBody fails once more than most bytes were read. An answer of exactly that size is read whole.
type limitedBody struct {
	io.ReadCloser

	left, most int64
}

// Read implements io.Reader.
func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, tooLarge("an answer", b.most)
	}
	return n, err //nolint:wrapcheck // io.EOF is compared by identity
}
