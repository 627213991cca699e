package cli

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	medik8s "github.com/fettle-io/fettle/api/medik8s/v1alpha1"
	"github.com/fettle-io/fettle/api/openshift/v1beta1"
	"github.com/fettle-io/fettle/internal/clusterapi"
	"github.com/fettle-io/fettle/internal/dialect/openshift"
	"github.com/fettle-io/fettle/internal/slim"
)

// connection holds the flags that select the cluster, the user and the namespace. They are kubectl's, from the same
// library.
type connection struct {
	rules     *clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
	// all is --all-namespaces.
	all bool
	// controller is the namespace of the controllers' lease.
	controller string
	// bmcs is the namespace of the BMCs.
	bmcs      string
	userAgent string
}

func newConnection(userAgent string) *connection {
	return &connection{rules: clientcmd.NewDefaultClientConfigLoadingRules(), userAgent: userAgent}
}

func (c *connection) addFlags(f *pflag.FlagSet) {
	f.StringVar(&c.rules.ExplicitPath, "kubeconfig", "", "path of the kubeconfig (default: $KUBECONFIG, then ~/.kube/config)")
	clientcmd.BindOverrideFlags(&c.overrides, f, clientcmd.RecommendedConfigOverrideFlags(""))
	f.StringVar(&c.controller, "controller-namespace", "fettle-system", "namespace of the lease that Fettle's controllers hold")
	f.StringVar(&c.bmcs, "bmc-namespace", "fettle-system", "namespace of the BMCs that Fettle's controllers read")
}

func (c *connection) addAllNamespaces(f *pflag.FlagSet) {
	f.BoolVarP(&c.all, "all-namespaces", "A", false, "look in all namespaces")
}

func (c *connection) config() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(c.rules, &c.overrides)
}

// namespace returns the namespace to look in, or an empty one for all.
func (c *connection) namespace() (string, error) {
	if c.all {
		return "", nil
	}
	namespace, _, err := c.config().Namespace()
	if err != nil {
		return "", fmt.Errorf("finding the namespace to look in: %w", err)
	}
	return namespace, nil
}

// named reports whether the user has named a namespace on the command line.
func (c *connection) named(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("namespace")
}

func (c *connection) connect() (client.WithWatch, error) {
	config, err := c.config().ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster (is --kubeconfig, or $KUBECONFIG, right?): %w", err)
	}
	config.UserAgent = c.userAgent
	config.QPS = -1
	config.WarningHandlerWithContext = rest.NoWarnings{}
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("preparing the connection to the cluster: %w", err)
	}
	mapper, err := newMapper(config, transport)
	if err != nil {
		return nil, fmt.Errorf("preparing to ask which kinds the cluster serves: %w", err)
	}
	cluster, err := client.NewWithWatch(config, client.Options{HTTPClient: transport, Scheme: newScheme(), Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return cluster, nil
}

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(coordinationv1.AddToScheme(s))
	utilruntime.Must(metav1.AddMetaToScheme(s))
	utilruntime.Must(slim.AddToScheme(s))
	utilruntime.Must(v1alpha1.AddToScheme(s))
	utilruntime.Must(openshift.AddToScheme(s))
	utilruntime.Must(clusterapi.AddToScheme(s))
	return s
}

// newMapper maps the kinds that every command reads without discovery, and uses discovery for others, such as
// remediators'. If the cluster lacks one of the former, listing it returns NotFound.
func newMapper(config *rest.Config, transport *http.Client) (meta.RESTMapper, error) {
	lazy, err := apiutil.NewDynamicRESTMapper(config, transport)
	if err != nil {
		return nil, err //nolint:wrapcheck // connect says what was being done
	}
	return meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{knownKinds(), lazy}}, nil
}

// knownKinds lacks Cluster API's kinds, which need discovery. Without it, a user without rights would see Forbidden for
// kinds that the cluster does not serve.
func knownKinds() meta.RESTMapper {
	core, coordination := schema.GroupVersion{Version: "v1"}, schema.GroupVersion{Group: "coordination.k8s.io", Version: "v1"}
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{core, coordination, v1alpha1.GroupVersion, v1beta1.GroupVersion, medik8s.GroupVersion})
	m.Add(core.WithKind("Node"), meta.RESTScopeRoot)
	m.Add(core.WithKind("Namespace"), meta.RESTScopeRoot)
	m.Add(core.WithKind("Secret"), meta.RESTScopeNamespace)
	m.Add(coordination.WithKind("Lease"), meta.RESTScopeNamespace)
	m.Add(v1alpha1.GroupVersion.WithKind("Repair"), meta.RESTScopeNamespace)
	m.Add(v1alpha1.GroupVersion.WithKind("FencePolicy"), meta.RESTScopeRoot)
	m.Add(v1beta1.GroupVersion.WithKind("Machine"), meta.RESTScopeNamespace)
	m.Add(v1beta1.GroupVersion.WithKind("MachineHealthCheck"), meta.RESTScopeNamespace)
	m.Add(medik8s.GroupVersion.WithKind("NodeHealthCheck"), meta.RESTScopeRoot)
	return m
}
