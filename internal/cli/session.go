package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
)

// Options configure the commands. Every field is required.
type Options struct {
	// Name is the command of the user, such as fettle or kubectl fettle.
	Name string
	// UserAgent is the user agent of requests to the API server.
	UserAgent string
	Dialects  []Dialect
	Now       func() time.Time
}

// session is one run of a command.
type session struct {
	Options
	output

	connection *connection
	chosen     chosen
	watch      bool

	// concerns selects the workload clusters of the question.
	concerns  clusterFilter
	cluster   client.WithWatch
	namespace string
	out, err  io.Writer
}

// answer is printed once.
type answer struct {
	value any
	// header is the header of the value.
	header *Header
	people func(*page)
	// nextAt is when time alone changes the answer, or zero for never. ended is set for a final answer.
	nextAt time.Time
	ended  bool
}

// answerFunc answers a question from a view.
type answerFunc func(ctx context.Context, v *view, h Header) (answer, error)

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
	for _, d := range s.Dialects {
		if with, has := d.(flagged); has {
			with.addFlags(cmd.Flags())
		}
	}
	s.connection.complete(cmd)
	s.addFlag(cmd.Flags())
	s.output.complete(cmd)
}

func (s *session) addWatch(cmd *cobra.Command, until string) {
	cmd.Flags().BoolVarP(&s.watch, "watch", "w", false, "print again whenever the answer changes, until a signal ends it"+until)
}

// run answers once, or whenever the answer changes.
func (s *session) run(ctx context.Context, ask answerFunc) error {
	if s.watch {
		return s.follow(ctx, ask)
	}
	v, err := s.read(ctx)
	if err != nil {
		return err
	}
	_, a, err := s.ask(ctx, v, ask)
	if err != nil {
		return err
	}
	return s.show(a, v, false)
}

// read reads the facts for the question.
func (s *session) read(ctx context.Context) (*view, error) {
	v, err := read(ctx, s.cluster, s.Dialects, s.where())
	if err != nil {
		return nil, err
	}
	v.concerns = s.concerns
	v.readWorkloads(ctx, s.cluster, s.UserAgent)
	return v, nil
}

// ask returns the present answer, with a key that differs when the answer differs in more than the time.
func (s *session) ask(ctx context.Context, v *view, ask answerFunc) (string, answer, error) {
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

// where returns the scope of the question.
func (s *session) where() scope {
	return scope{s.namespace, s.connection.controller, s.connection.bmcs}
}

// assess decides on what was read: for the user's own cluster, and then for the workload clusters of the question. A
// first decision finds the targets that may be repaired, and only for those it checks quorum.
func (s *session) assess(ctx context.Context, v *view) []*assessment {
	seen := map[core.ClusterKey][]observed{{}: nil}
	for _, f := range v.observations() {
		seen[f.Cluster] = append(seen[f.Cluster], f)
	}
	clusters := inOrder(seen)
	assessments := make([]*assessment, len(clusters))
	for i, cluster := range clusters {
		assessments[i] = newAssessment(cluster, seen[cluster], v.repairDetails, &v.external, v.at)
		if v.readQuorum(ctx, s.cluster, assessments[i]) {
			assessments[i].decide()
		}
	}
	return assessments
}

// inOrder sorts clusters by their names, with the user's own cluster first.
func inOrder[T any](clusters map[core.ClusterKey]T) []core.ClusterKey {
	return slices.SortedFunc(maps.Keys(clusters), func(a, b core.ClusterKey) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
}

// observations returns what dialects see of the user's own cluster, and of the workload clusters of the question. A
// cluster that has nothing but repairs is empty.
func (v *view) observations() []observed {
	var clusters []observed
	known := map[core.ClusterKey]bool{{}: true}
	for _, p := range v.parts {
		reader, _ := p.Reading.(StatusReader)
		for _, f := range p.Observe(v.at) {
			known[f.Cluster] = true
			if f.Cluster == (core.ClusterKey{}) || v.concerns(v, &f) {
				clusters = append(clusters, observed{f, p.Dialect, reader, p.foreignWriters})
			}
		}
		if _, several := p.Reading.(Workloads); !several {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(v.repairDetails)) {
			a := v.repairDetails[key]
			f := ClusterObservation{Cluster: a.Cluster, Observation: core.Observation{Kind: a.Target.Kind, Observed: core.Yes}}
			if !a.Ignored && !known[a.Cluster] && v.concerns(v, &f) {
				known[a.Cluster] = true
				clusters = append(clusters, observed{f, p.Dialect, reader, p.foreignWriters})
			}
		}
	}
	return clusters
}

// unmet reads it from the reading that knows both.
func (v *view) unmet(policy, target core.ID) ([]string, bool) {
	for _, p := range v.parts {
		if missing, possible := p.Unmet(policy, target); possible {
			return missing, true
		}
	}
	return nil, false
}
