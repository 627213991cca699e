package workload

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// errRefused is that of a kubeconfig which is not followed, whatever else it says.
var errRefused = errors.New("it is refused, since whoever may write the Secret would have this process run commands or read files")

// What client-go has to say of a kubeconfig may quote it, and these words are for all who may read a status.
var (
	errIllegible = errors.New("it is no kubeconfig")
	errUnusable  = errors.New("it lacks a part, or has one that can't be used; look at its current-context, and at the server, the proxy-url and the credentials of that")
)

// readKubeconfig reads how to reach a cluster. A kubeconfig has ways to have a command run or a file read by whoever
// uses it. A person's own does that with the person's rights; one from a Secret would do it with those of Fettle.
func readKubeconfig(raw []byte) (*rest.Config, error) {
	all, err := clientcmd.Load(raw)
	if err != nil {
		return nil, errIllegible
	}
	if err := refuse(all); err != nil {
		return nil, err
	}
	for _, c := range all.Clusters {
		if c != nil && c.Server != "" && !strings.Contains(c.Server, "://") {
			c.Server = "https://" + c.Server // else it would be asked in the open, and without credentials
		}
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*all, all.CurrentContext, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, errUnusable
	}
	config.WarningHandler = rest.NoWarnings{}
	config.QPS = -1 // the cluster's own priority and fairness paces it
	return config, nil
}

// refuse looks at all contexts, before anything else does: to look at a file that is named is to read it.
func refuse(all *api.Config) error {
	for name, c := range all.Clusters {
		if c != nil && c.CertificateAuthority != "" {
			return refusal("cluster", name, "certificate-authority", "certificate-authority-data")
		}
	}
	for name, u := range all.AuthInfos {
		switch {
		case u == nil:
		case u.Exec != nil:
			return refusal("user", name, "exec", "a token or client-certificate-data")
		case u.AuthProvider != nil:
			return refusal("user", name, "auth-provider", "a token or client-certificate-data")
		case u.TokenFile != "":
			return refusal("user", name, "tokenFile", "token")
		case u.ClientCertificate != "":
			return refusal("user", name, "client-certificate", "client-certificate-data")
		case u.ClientKey != "":
			return refusal("user", name, "client-key", "client-key-data")
		}
	}
	return nil
}

func refusal(part, name, field, instead string) error {
	return fmt.Errorf("its %s %q has the field %s: %w; give %s instead", part, name, field, errRefused, instead)
}
