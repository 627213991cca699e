package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	"github.com/fettle-io/fettle/internal/contain"
)

// Handler answers a question of the agent of a node. The asking agent does not see the error.
type Handler func(ctx context.Context, fromNode string, body []byte) ([]byte, error)

// Server answers the agents of other nodes.
type Server struct {
	identity Source
	refusals refusals
	handlers map[string]Handler
	places   places
	asking   turns
	// dial connects to the API server for agents that can't, or is nil.
	dial     func(context.Context) (net.Conn, error)
	relaying turns
}

// NewServer returns a server that answers nothing yet. It calls tell with what it refuses, and not often. Tell must not wait for anything.
func NewServer(identity Source, tell func(Refusal)) *Server {
	return &Server{identity: identity, refusals: refusals{tell: tell}, handlers: map[string]Handler{}}
}

// Handle has questions to a path answered. Call it before Serve.
func (s *Server) Handle(path string, h Handler) { s.handlers[path] = h }

// Serve answers questions until the context ends or the listener fails. It closes the listener and all connections.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: http.HandlerFunc(s.answer), ConnState: s.changed, ErrorLog: log.New(io.Discard, "", 0), DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout: helloTime, ReadTimeout: AnswerTime, WriteTimeout: 2 * AnswerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		Protocols: new(http.Protocols), BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, rawOf(c))
		},
	}
	server.Protocols.SetHTTP1(true)
	defer func() { _ = server.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	telling, endTelling := context.WithCancel(ctx)
	defer endTelling()
	go s.refusals.run(telling)
	err := server.Serve(tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: s.config}))
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("serving other agents: %w", err)
}

// config returns what a connection demands. The identity may have changed since the last one.
func (s *Server) config(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	own, err := s.identity()
	if err != nil {
		return nil, &Error{NoIdentity, err}
	}
	c := own.config()
	// The other side has not yet proven that it has the key of the certificate. So nothing else may follow from it here.
	c.ClientAuth = tls.RequireAnyClientCert
	c.VerifyConnection = func(state tls.ConnectionState) error {
		err := own.verify(state)
		if err != nil && s.places.refuse(hello.Conn) {
			s.refusals.note(stranger(hello.Conn, BadCertificate), nil)
		}
		return err
	}
	return c, nil
}

// connKey is the key of the connection in the context of a question.
type connKey struct{}

// rawOf returns the connection below TLS.
func rawOf(c net.Conn) net.Conn {
	if t, is := c.(*tls.Conn); is {
		return t.NetConn()
	}
	return c
}

// changed notes what becomes of a connection.
func (s *Server) changed(c net.Conn, to http.ConnState) {
	c = rawOf(c)
	if to == http.StateNew {
		s.places.open(c)
		return
	}
	if s.places.change(c, to) {
		s.refusals.note(stranger(c, NoQuestion), nil)
	}
}

// answer answers a question.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	node, err := nodeAt(r.TLS)
	if err != nil {
		refuse(w, http.StatusForbidden)
		return
	}
	if c, is := r.Context().Value(connKey{}).(net.Conn); !is || !s.places.know(c, node) {
		s.refuse(w, http.StatusTooManyRequests, other{cause: TooManyConnections, node: node})
		return
	}
	if r.Method == http.MethodConnect {
		s.relay(w, r, node)
		return
	}
	handle, is := s.handlers[r.URL.Path]
	if !is || r.Method != http.MethodPost {
		s.refuse(w, http.StatusNotFound, other{cause: UnknownQuestion, node: node})
		return
	}
	if !s.asking.take(node, askingBound()) {
		s.refuse(w, http.StatusTooManyRequests, other{cause: TooManyQuestions, node: node})
		return
	}
	defer s.asking.leave(node)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err != nil {
		if _, long := errors.AsType[*http.MaxBytesError](err); long {
			s.refusals.note(other{cause: LongQuestion, node: node}, nil)
		}
		refuse(w, http.StatusRequestEntityTooLarge)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), AnswerTime)
	defer cancel()
	reply, err := call(ctx, handle, node, body)
	if err != nil {
		s.refusals.note(other{cause: NotAnswered, node: node}, err)
		refuse(w, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(reply) // the other side has gone if this fails
}

var errLong = errors.New("the answer to another agent is too long")

// call calls a handler.
func call(ctx context.Context, handle Handler, node string, body []byte) (reply []byte, err error) {
	err = contain.Run(func() (err error) {
		reply, err = handle(ctx, node, body)
		return err
	})
	if err == nil && len(reply) > MaxBody {
		err = errLong
	}
	return reply, err
}

// refuse answers with a code alone, and notes why.
func (s *Server) refuse(w http.ResponseWriter, code int, of other) {
	s.refusals.note(of, nil)
	refuse(w, code)
}

// refuse answers with a code alone, and ends the connection.
func refuse(w http.ResponseWriter, code int) {
	w.Header().Set("Connection", "close")
	w.WriteHeader(code)
}
