package workload

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/fettle-io/fettle/internal/sanitize"
)

// errRefused is wrapped by the error about a kubeconfig that would have a command run or a file read.
var errRefused = errors.New("it is refused, since an author of the Secret could have this process run commands or read files")

// These errors replace the errors of client-go, which may quote a kubeconfig. All users who can read a status see them.
var (
	errNotKubeconfig = errors.New("it is no kubeconfig")
	errLarge         = fmt.Errorf("it has more than %d KiB, or more than %d contexts, clusters or users; leave in it what reaches this one cluster", kubeconfigBytes>>10, kubeconfigParts)
	errLargeKey      = fmt.Errorf("a client-key-data of it has more than %d KiB; use a key of at most 8192 bits", keyBytes>>10)
	errNotHTTPS      = errors.New("it names a server by another scheme than https, so that the credentials and all answers could be read and changed on the way; give an https address")
	errUnusable      = errors.New("it lacks a part, or a part can't be used; look at its current-context, and at the server, the proxy-url and the credentials of that")
)

// The bounds on a kubeconfig. An API server stores Secrets of 1 MiB, and a YAML parser takes many times that. To read a
// larger key than any in use would take seconds of processor time, for each connection.
const (
	kubeconfigBytes, keyBytes = 128 << 10, 8 << 10
	kubeconfigParts           = 32
)

// readKubeconfig reads how to reach a cluster. It refuses a kubeconfig that has a command run or a file read. A
// user's own kubeconfig does so with the user's rights, but one from a Secret would do so with Fettle's.
func readKubeconfig(raw []byte) (*rest.Config, error) {
	if len(raw) > kubeconfigBytes {
		return nil, errLarge
	}
	all, err := clientcmd.Load(raw)
	if err != nil {
		return nil, errNotKubeconfig
	}
	if err := refuse(all); err != nil {
		return nil, err
	}
	if err := refuseLarge(all); err != nil {
		return nil, err
	}
	for _, c := range all.Clusters {
		if c.Server != "" && !strings.Contains(c.Server, "://") {
			c.Server = "https://" + c.Server // otherwise requests would be plain HTTP, without credentials
		}
		if c.Server != "" && !isHTTPS(c.Server) {
			return nil, errNotHTTPS
		}
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*all, all.CurrentContext, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, errUnusable
	}
	config.WarningHandler = rest.NoWarnings{}
	config.QPS = -1 // the cluster's own priority and fairness limits the rate
	return config, nil
}

func isHTTPS(server string) bool {
	at, err := url.Parse(server)
	return err == nil && at.Scheme == "https"
}

// refuseLarge returns an error if any part of a kubeconfig is too large.
func refuseLarge(all *api.Config) error {
	if max(len(all.Contexts), len(all.Clusters), len(all.AuthInfos)) > kubeconfigParts {
		return errLarge
	}
	for _, u := range all.AuthInfos {
		if len(u.ClientKeyData) > keyBytes {
			return errLargeKey
		}
	}
	return nil
}

// refuse returns an error if any context names a command or a file. It must run first: other functions read the
// files.
func refuse(all *api.Config) error {
	for name, c := range all.Clusters {
		if c.CertificateAuthority != "" {
			return refusal("cluster", name, "certificate-authority", "certificate-authority-data")
		}
	}
	for name, u := range all.AuthInfos {
		switch {
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

// maxName bounds how much of a name in a kubeconfig is repeated, in bytes.
const maxName = 64

func refusal(part, name, field, instead string) error {
	return fmt.Errorf("its %s %s has the field %s: %w; give %s instead", part, strconv.Quote(sanitize.Line(maxName, name)), field, errRefused, instead)
}
