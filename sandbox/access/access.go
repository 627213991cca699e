package access

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/fettle-io/fettle/sandbox/pki"
)

const entryName = "fettle-sandbox"

// Identity is a user of the API server at a URL, by a certificate or by Token.
type Identity struct {
	Server      string
	CA          []byte
	Certificate pki.Pair
	Token       string
	User        string // name of the entry in the file; fettle-sandbox if empty
}

// ClientConfig returns a configuration for a client in this process. It has no rate limit: the simulation must not be
// slower than the components that it plays.
func (id Identity) ClientConfig() *rest.Config {
	config := &rest.Config{Host: id.Server, BearerToken: id.Token, QPS: -1}
	config.CAData = id.CA
	if id.Token == "" {
		config.CertFile, config.KeyFile = id.Certificate.CertFile, id.Certificate.KeyFile
	}
	return config
}

// Write writes a kubeconfig of the identity that only its owner can read.
func Write(file string, id Identity) error {
	user := &clientcmdapi.AuthInfo{Token: id.Token}
	if id.Token == "" {
		var err error
		if user.ClientCertificateData, err = os.ReadFile(id.Certificate.CertFile); err != nil {
			return fmt.Errorf("reading the client certificate: %w", err)
		}
		if user.ClientKeyData, err = os.ReadFile(id.Certificate.KeyFile); err != nil {
			return fmt.Errorf("reading the client key: %w", err)
		}
	}
	userName := entryName
	if id.User != "" {
		userName = id.User
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[entryName] = &clientcmdapi.Cluster{Server: id.Server, CertificateAuthorityData: id.CA}
	config.AuthInfos[userName] = user
	config.Contexts[entryName] = &clientcmdapi.Context{Cluster: entryName, AuthInfo: userName}
	config.CurrentContext = entryName
	content, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encoding the kubeconfig: %w", err)
	}
	return replace(file, content)
}

// PortOf returns the port of the kubeconfig's server, or 0 if there is no such file.
func PortOf(file string) (int, error) {
	config, err := clientcmd.LoadFromFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading the kubeconfig of the last run: %w", err)
	}
	cluster, ok := config.Clusters[entryName]
	if !ok {
		return 0, nil
	}
	server, err := url.Parse(cluster.Server)
	if err != nil {
		return 0, fmt.Errorf("reading the server's address in %s: %w", file, err)
	}
	port, err := strconv.Atoi(server.Port())
	if err != nil {
		return 0, fmt.Errorf("reading the server's port in %s: %w", file, err)
	}
	return port, nil
}

// replace replaces a file at once. The file is never half written, nor readable by other users.
func replace(file string, content []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(file), ".kubeconfig-*") // mode 0600
	if err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	if _, err := temp.Write(content); err != nil {
		_ = temp.Close()
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	if err := temp.Close(); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	if err := os.Rename(temp.Name(), file); err != nil {
		return fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return nil
}
