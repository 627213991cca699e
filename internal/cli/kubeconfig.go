package cli

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var (
	errIllegible = errors.New("it is no kubeconfig")
	errUnusable  = errors.New("it lacks a server, or credentials that can be used")
)

// readKubeconfig reads how to reach a workload cluster. Whoever may write the Secret would have a command run, or a file
// read, with the rights of the person who asks, so what names either is refused, as the controller refuses it.
func readKubeconfig(raw []byte, userAgent string) (*rest.Config, error) {
	all, err := clientcmd.Load(raw)
	if err != nil {
		return nil, errIllegible
	}
	for name, c := range all.Clusters {
		switch {
		case c == nil:
		case c.CertificateAuthority != "":
			return nil, refusal("cluster", name, "certificate-authority")
		case c.Server != "" && !strings.Contains(c.Server, "://"):
			c.Server = "https://" + c.Server // else it would be asked in the open
		}
	}
	for name, u := range all.AuthInfos {
		if field := reachesOut(u); field != "" {
			return nil, refusal("user", name, field)
		}
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*all, all.CurrentContext, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, errUnusable
	}
	config.UserAgent, config.QPS = userAgent, -1
	config.WarningHandlerWithContext = rest.NoWarnings{}
	return config, nil
}

// reachesOut gives the field by which credentials name a command or a file, empty for none.
func reachesOut(u *api.AuthInfo) string {
	switch {
	case u == nil:
	case u.Exec != nil:
		return "exec"
	case u.AuthProvider != nil:
		return "auth-provider"
	case u.TokenFile != "":
		return "tokenFile"
	case u.ClientCertificate != "":
		return "client-certificate"
	case u.ClientKey != "":
		return "client-key"
	}
	return ""
}

func refusal(part, name, field string) error {
	return fmt.Errorf("it is refused, since %s %q in it has the field %s, by which a Secret would have commands run or files read here", part, name, field) //nolint:err113 // told to a person
}

// reach makes a client of a workload cluster, which knows the kinds that are read there.
func reach(config *rest.Config) (client.WithWatch, error) {
	c, err := client.NewWithWatch(config, client.Options{Scheme: newScheme(), Mapper: workloadKinds()})
	if err != nil {
		return nil, fmt.Errorf("preparing the connection: %w", err)
	}
	return c, nil
}
