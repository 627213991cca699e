package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
)

// Options are what the commands need. Every field is required.
type Options struct {
	// Name is how the person calls Fettle, such as fettle or kubectl fettle.
	Name string
	// UserAgent is what the API server is told.
	UserAgent string
	Dialects  []Dialect
	Now       func() time.Time
}

// session is one question on the command line.
type session struct {
	Options
	output

	connection *connection
	watch      bool

	cluster   client.WithWatch
	namespace string
	out, err  io.Writer
}

// answer is what is printed once.
type answer struct {
	value any
	// header is the one within the value.
	header *Header
	people func(*page)
	// nextAt is when time alone changes the answer, zero for never; ended when nothing will.
	nextAt time.Time
	ended  bool
}

// ask answers a question from what was read.
type ask func(ctx context.Context, v *view, h Header) (answer, error)

func (s *session) open(cmd *cobra.Command) error {
	if err := s.validate(); err != nil {
		return err
	}
	var err error
	if s.namespace, err = s.connection.namespace(); err != nil {
		return err
	}
	s.out, s.err = cmd.OutOrStdout(), cmd.ErrOrStderr()
	s.cluster, err = s.connection.connect()
	return err
}

func (s *session) addFlags(cmd *cobra.Command) {
	s.connection.addFlags(cmd.Flags())
	s.connection.complete(cmd)
	s.addFlag(cmd.Flags())
	s.output.complete(cmd)
}

func (s *session) addWatch(cmd *cobra.Command, until string) {
	cmd.Flags().BoolVarP(&s.watch, "watch", "w", false, "print again whenever the answer changes, until a signal ends it"+until)
}

// run answers once, or again and again.
func (s *session) run(ctx context.Context, ask ask) error {
	if s.watch {
		return s.follow(ctx, ask)
	}
	v, err := read(ctx, s.cluster, s.Dialects, s.where())
	if err != nil {
		return err
	}
	_, a, err := s.ask(ctx, v, ask)
	if err != nil {
		return err
	}
	return s.show(a, v, false)
}

// ask gives an answer as of now, with a key that differs when the answer does in more than the time.
func (s *session) ask(ctx context.Context, v *view, ask ask) (string, answer, error) {
	v.readLease(ctx, s.cluster, s.connection.controller)
	v.at = s.Now()
	controller := controllerOf(v.lease, v.leaseUnknown, s.connection.controller, v.at)
	a, err := ask(ctx, v, Header{APIVersion: APIVersion, At: instant(v.at), Controller: controller, Notes: v.allNotes()})
	if err != nil {
		return "", answer{}, err
	}
	header := *a.header
	defer func() { *a.header = header }()
	a.header.Controller = &Controller{Leads: controller.Leads, Holder: controller.Holder}
	body, err := json.Marshal(a.value)
	if err != nil {
		return "", answer{}, fmt.Errorf("comparing answers: %w", err)
	}
	return strings.ReplaceAll(string(body), instant(v.at).Format(time.RFC3339), "now"), a, nil
}

// show prints an answer, below a line with the time when others follow.
func (s *session) show(a answer, v *view, dated bool) error {
	p := &page{Writer: s.out, colours: onTerminal(s.out), at: v.at}
	return s.emit(s.out, a.value, func() {
		if dated {
			p.printf("── %s\n", v.at.UTC().Format("2006-01-02 15:04:05Z"))
		}
		a.people(p)
		if dated {
			p.printf("\n")
		}
	})
}

// where says where to look.
func (s *session) where() scope { return scope{s.namespace, s.connection.controller} }

// world decides on what was read. Whether quorum survives is asked only of what may be repaired, which a first decision
// tells.
func (s *session) world(ctx context.Context, v *view) *world {
	observations := make([]observed, len(v.parts))
	for i, p := range v.parts {
		observations[i] = observed{p.Observe(v.at), p.Dialect}
	}
	w := newWorld(observations, v.accounts, &v.around, v.at)
	if v.readQuorum(ctx, s.cluster, w) {
		w.decide()
	}
	return w
}

// unmet asks the reading that knows the pair.
func (v *view) unmet(policy, target core.ID) ([]string, bool) {
	for _, p := range v.parts {
		if missing, possible := p.Unmet(policy, target); possible {
			return missing, true
		}
	}
	return nil, false
}
