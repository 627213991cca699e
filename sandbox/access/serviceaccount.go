package access

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// TokenLifetime is how long a service account's kubeconfig works.
const TokenLifetime = 24 * time.Hour

// WriteForServiceAccount writes a kubeconfig of a service account to the file out. It requests the token with the
// administrator's kubeconfig.
func WriteForServiceAccount(ctx context.Context, adminKubeconfig string, account types.NamespacedName, out string) error {
	config, err := clientcmd.BuildConfigFromFlags("", adminKubeconfig)
	if err != nil {
		return fmt.Errorf("reading the administrator's kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	seconds := int64(TokenLifetime / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	token, err := client.CoreV1().ServiceAccounts(account.Namespace).CreateToken(ctx, account.Name, request, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("there is no service account %s; create it with: kubectl -n %s create serviceaccount %s",
			account, account.Namespace, account.Name)
	}
	if err != nil {
		return fmt.Errorf("asking for a token of service account %s: %w", account, err)
	}
	return Write(out, Identity{
		Server: config.Host,
		CA:     config.CAData,
		Token:  token.Status.Token,
		User:   account.String(),
	})
}
