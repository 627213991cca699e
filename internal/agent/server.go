package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

// Server is the API server. A request is sent once, and never again by itself. Answers are bounded.
type Server struct {
	client *http.Client
	base   *url.URL
	dialer *connrotation.Dialer
}

// NewServer returns the API server of a configuration, with connections of its own. It sends nothing. The configuration may say how to connect.
func NewServer(config *rest.Config) (*Server, error) {
	config = rest.CopyConfig(config)
	dial := config.Dial
	if dial == nil {
		dial = Direct
	}
	dialer := connrotation.NewDialer(dial)
	config.Dial = dialer.DialContext
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the API server: %w", err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the API server: %w", err)
	}
	return &Server{client, base, dialer}, nil
}

// Direct connects to an address, and not through another agent.
func Direct(ctx context.Context, network, address string) (net.Conn, error) {
	return direct().DialContext(ctx, network, address) //nolint:wrapcheck // it names the address
}

// direct connects to addresses.
func direct() *net.Dialer { return &net.Dialer{Timeout: dialTime, KeepAlive: keepAlive} }

// Address returns the host and the port of the API server.
func (s *Server) Address() string {
	port := s.base.Port()
	if port == "" {
		port = s.base.Scheme // net knows both
	}
	return net.JoinHostPort(s.base.Hostname(), port)
}

// Times of connections.
const (
	dialTime  = 5 * time.Second
	keepAlive = 30 * time.Second
)

// maxAnswer bounds an answer of the API server. An object has at most 1.5 MiB there, and a list of policies is shorter.
const maxAnswer = 2 << 20

var errTooLong = errors.New("the answer of the API server is too long")

// call is one request.
type call struct {
	method, path string
	query        url.Values
	// accept is the content type to ask for. The default is JSON.
	accept string
	body   any
}

// do sends a request and reads its answer. An answer that is a Status of Kubernetes is an error of apierrors.
func (s *Server) do(ctx context.Context, c call, into any) error {
	request, err := s.request(ctx, c)
	if err != nil {
		return err
	}
	code, text, err := s.answer(request)
	if err != nil {
		s.dialer.CloseAll() // they may lead nowhere, and the next request would wait for them too
		return err
	}
	if code < 200 || code > 299 {
		return refusal(code, text)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("decoding the answer of the API server: %w", err)
	}
	return nil
}

// answer sends a request, and returns the code and the text of its answer.
func (s *Server) answer(request *http.Request) (int, []byte, error) {
	response, err := s.client.Do(request)
	if err != nil {
		return 0, nil, fmt.Errorf("sending a request to the API server: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		err = errTooLong
	}
	if err != nil {
		return 0, nil, fmt.Errorf("reading the answer of the API server: %w", err)
	}
	return response.StatusCode, text, nil
}

func (s *Server) request(ctx context.Context, c call) (*http.Request, error) {
	var body io.Reader = http.NoBody
	if c.body != nil {
		text, err := json.Marshal(c.body)
		if err != nil {
			return nil, fmt.Errorf("encoding a request: %w", err)
		}
		body = bytes.NewReader(text)
	}
	address := *s.base
	address.Path, address.RawQuery = path.Join("/", s.base.Path, c.path), c.query.Encode()
	request, err := http.NewRequestWithContext(ctx, c.method, address.String(), body)
	if err != nil {
		return nil, fmt.Errorf("making a request: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	if c.accept != "" {
		request.Header.Set("Accept", c.accept)
	}
	if c.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, nil
}

// refusal returns the error of an answer.
func refusal(code int, text []byte) error {
	var s metav1.Status
	if err := json.Unmarshal(text, &s); err == nil && s.Kind == "Status" && s.Status == metav1.StatusFailure {
		return &apierrors.StatusError{ErrStatus: s}
	}
	return fmt.Errorf("the API server has answered with the code %d and no status", code)
}
