package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/procfs"
	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fettle-io/fettle/sandbox/stage"
)

// Times between two renewals of a Lease: by the agent of a node, and by a kubelet.
const (
	agentRenews   = 5 * time.Second
	kubeletRenews = 10 * time.Second
)

// namespaceOfAgents is where the Leases of agents are.
const namespaceOfAgents = "fettle-agents"

// renewing is how many requests are under way at a time.
const renewing = 16

// leaseLoad is the load of a run.
type leaseLoad struct {
	nodes, rate int
	during      time.Duration
}

// leaseCosts are what renewals cost the API server with its etcd.
type leaseCosts struct {
	Host  host `json:"host"`
	Nodes int  `json:"nodes"`
	// Idle is the processor time in a second without any.
	Idle seconds `json:"idleCPUPerSecond"`
	// Kubelets and Agents are the processor time of one renewal.
	Kubelets renewals `json:"kubelets"`
	Agents   renewals `json:"agents"`
	// Bytes is the size of the Lease of an agent, as JSON.
	Bytes int `json:"leaseBytes"`
	// Reads are what agents read.
	Reads []agentRead `json:"reads"`
	// Plain is what an agent uses while others renew their Leases, and Witness what an agent uses meanwhile that follows all Leases.
	Plain   agentUse `json:"plainAgent"`
	Witness agentUse `json:"witness"`
}

// renewals are the renewals of one kind of Leases.
type renewals struct {
	Sent      int     `json:"sent"`
	PerSecond float64 `json:"perSecond"`
	// CPU is the processor time of one renewal, without that of an idle API server.
	CPU seconds `json:"cpuPerRenewal"`
}

func leasesCommand() *cobra.Command {
	var l leaseLoad
	var out string
	cmd := &cobra.Command{
		Use:   "leases",
		Short: "Measure what the Leases of agents cost the API server, beside those of kubelets",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if min(l.nodes, l.rate) < 1 || l.during < time.Second {
				return fmt.Errorf("--nodes %d and --rate %d must be above zero, and --during %s at least 1s", l.nodes, l.rate, l.during)
			}
			return benchLeases(cmd.Context(), l, out, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.IntVar(&l.nodes, "nodes", 5000, "nodes, each with a Lease of its kubelet and one of its agent")
	f.IntVar(&l.rate, "rate", 100, "renewals in a second, of all nodes together")
	f.DurationVar(&l.during, "during", 30*time.Second, "how long Leases of each kind are renewed")
	f.StringVarP(&out, "output", "o", "", "file that the results are written to as JSON")
	return cmd
}

// benchLeases renews the Leases of kubelets, and then those of agents under their admission policy.
func benchLeases(ctx context.Context, load leaseLoad, out string, w io.Writer) error {
	s, err := stage.New("fettle-bench-")
	if err != nil {
		return err
	}
	defer s.Strike()
	say("starting a sandbox")
	process, err := s.StartSandbox(ctx, "--controllers", controllers)
	if err != nil {
		return err
	}
	for _, install := range []func() error{
		func() error { return s.InstallFettle(ctx) }, func() error { return s.InstallPart(ctx, "selffence") },
	} {
		if err := install(); err != nil {
			return err
		}
	}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return fmt.Errorf("reading what the sandbox uses: %w", err)
	}
	server := observed{process, fs}
	costs := leaseCosts{Host: lookAtHost(), Nodes: load.nodes}
	kubelets := leaseholders{admin: s.Admin, namespace: corev1.NamespaceNodeLease, as: asKubelet, make: leaseOfKubelet}
	agents := leaseholders{admin: s.Admin, namespace: namespaceOfAgents, as: asAgent, make: leaseOfAgent}
	for _, l := range []*leaseholders{&kubelets, &agents} {
		say("creating %d Leases in %s", load.nodes, l.namespace)
		if err := l.create(ctx, load.nodes); err != nil {
			return err
		}
	}
	text, err := json.Marshal(agents.all[0].lease)
	if err != nil {
		return fmt.Errorf("encoding a Lease: %w", err)
	}
	costs.Bytes = len(text)
	running, err := startAgents(ctx, s)
	if err != nil {
		return err
	}
	err = costs.measure(ctx, measured{server, observed{running[plainNode], fs}, observed{running[witnessNode], fs}}, load, &kubelets, &agents)
	if err != nil {
		return err
	}
	say("reading as agents do")
	costs.Reads = agentReads(load.during)
	if err := measureReads(ctx, s.Admin, server, costs.Idle, costs.Reads); err != nil {
		return err
	}
	return costs.finish(out, w)
}

// measured are the processes under measurement: the sandbox and two agents.
type measured struct{ server, plain, witness observed }

// measure measures renewals, and what agents use meanwhile.
func (c *leaseCosts) measure(ctx context.Context, m measured, load leaseLoad, kubelets, agents *leaseholders) error {
	var err error
	say("idle for %s", load.during)
	if c.Idle, err = idles(ctx, m.server, load.during); err != nil {
		return err
	}
	say("renewing Leases of kubelets and then of agents, for %s each", load.during)
	if c.Kubelets, err = kubelets.renew(ctx, m.server, load, c.Idle); err != nil {
		return err
	}
	c.Plain, err = m.plain.uses(func() error {
		c.Witness, err = m.witness.uses(func() error {
			c.Agents, err = agents.renew(ctx, m.server, load, c.Idle)
			return err
		})
		return err
	})
	if err == nil && c.Witness.Cores < 2*c.Plain.Cores {
		err = errNoWitness
	}
	return err
}

// idles returns the processor time of a second in which nothing is requested.
func idles(ctx context.Context, server observed, during time.Duration) (seconds, error) {
	before, err := server.usage()
	if err != nil {
		return 0, err
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(during):
	}
	after, err := server.usage()
	return seconds(float64(after.cpu-before.cpu) / after.at.Sub(before.at).Seconds()), err
}

// leaseholders renew the Leases of one namespace.
type leaseholders struct {
	admin     *rest.Config
	namespace string
	as        func(node string) rest.ImpersonationConfig
	make      func(node string) *coordinationv1.Lease
	all       []*leaseholder
}

// leaseholder has the Lease of one node.
type leaseholder struct {
	client kubernetes.Interface
	lease  *coordinationv1.Lease
}

func asKubelet(node string) rest.ImpersonationConfig {
	return rest.ImpersonationConfig{UserName: "system:node:" + node, Groups: []string{"system:masters", "system:authenticated"}}
}

func asAgent(node string) rest.ImpersonationConfig {
	return rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespaceOfAgents + ":fettle-agent",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + namespaceOfAgents, "system:authenticated"},
		Extra:    map[string][]string{"authentication.kubernetes.io/node-name": {node}},
	}
}

func leaseOfKubelet(node string) *coordinationv1.Lease {
	duration := int32(40)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: node, Namespace: corev1.NamespaceNodeLease},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &node, LeaseDurationSeconds: &duration},
	}
}

// leaseOfAgent returns what an agent writes, with witnesses.
func leaseOfAgent(node string) *coordinationv1.Lease {
	boot, duration := string(uuid.NewUUID()), int32(20)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: node, Namespace: namespaceOfAgents, Annotations: map[string]string{
			"fettle.io/promise-state": "Promised", "fettle.io/promise-boot": boot, "fettle.io/promise-timed": "true",
			"fettle.io/promise-validity": "20s", "fettle.io/promise-watchdog": "10s", "fettle.io/promise-device": "iTCO_wdt",
			"fettle.io/promise-witnesses": "master-0,master-1,master-2",
		}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &boot, LeaseDurationSeconds: &duration},
	}
}

// create creates the Leases of this many nodes.
func (l *leaseholders) create(ctx context.Context, nodes int) error {
	transport, err := rest.TransportFor(l.admin)
	if err != nil {
		return fmt.Errorf("connecting to the sandbox: %w", err)
	}
	l.all = make([]*leaseholder, nodes)
	return each(ctx, nodes, func(i int) error {
		node := fmt.Sprintf("node-%05d", i)
		config := rest.Config{Host: l.admin.Host, QPS: -1, Impersonate: l.as(node), Transport: transport}
		if l.namespace == corev1.NamespaceNodeLease {
			config.ContentType = "application/vnd.kubernetes.protobuf" // as a kubelet does; an agent sends JSON
		}
		c, err := kubernetes.NewForConfigAndClient(&config, &http.Client{Transport: impersonate(&config)})
		if err != nil {
			return fmt.Errorf("making a client: %w", err)
		}
		for { // the policy needs a moment to be in force
			created, err := c.CoordinationV1().Leases(l.namespace).Create(ctx, l.make(node), metav1.CreateOptions{})
			if err == nil {
				l.all[i] = &leaseholder{c, created}
				return nil
			}
			if !apierrors.IsForbidden(err) || ctx.Err() != nil {
				return fmt.Errorf("creating a Lease: %w", err)
			}
		}
	})
}

// impersonate returns the transport of a configuration, which says on whose behalf it requests.
func impersonate(c *rest.Config) http.RoundTripper {
	next, err := rest.HTTPWrappersForConfig(c, c.Transport)
	if err != nil {
		return c.Transport // the API server then refuses what it is to refuse
	}
	return next
}

// each does something for each number below another, with several at a time. It returns the first error.
func each(ctx context.Context, numbers int, do func(int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var running sync.WaitGroup
	for range renewing {
		running.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := range numbers {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	running.Wait()
	return context.Cause(ctx)
}

// renew renews one Lease after the other at the rate of the load, and returns what that has cost.
func (l *leaseholders) renew(ctx context.Context, server observed, load leaseLoad, idle seconds) (renewals, error) {
	before, err := server.usage()
	if err != nil {
		return renewals{}, err
	}
	sends := int(load.during.Seconds() * float64(load.rate))
	begun := time.Now()
	err = each(ctx, sends, func(i int) error {
		if wait := time.Until(begun.Add(time.Duration(i) * time.Second / time.Duration(load.rate))); wait > 0 {
			<-time.After(wait)
		}
		return l.all[i%len(l.all)].renew(ctx, l.namespace)
	})
	if err != nil {
		return renewals{}, err
	}
	after, err := server.usage()
	took := after.at.Sub(before.at)
	cpu := float64(after.cpu-before.cpu) - float64(idle)*took.Seconds()
	return renewals{Sent: sends, PerSecond: float64(sends) / took.Seconds(), CPU: seconds(cpu / float64(sends))}, err
}

func (h *leaseholder) renew(ctx context.Context, namespace string) error {
	now := metav1.NowMicro()
	h.lease.Spec.RenewTime = &now
	stored, err := h.client.CoordinationV1().Leases(namespace).Update(ctx, h.lease, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("renewing a Lease: %w", err)
	}
	h.lease = stored
	return nil
}
