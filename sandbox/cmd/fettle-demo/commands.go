package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/kubernetes"
)

// kubectlGet prints what kubectl get prints for a resource, and the command. The path is that of the API.
func (s *demo) kubectlGet(ctx context.Context, path, arguments string) error {
	fmt.Printf("\n    $ kubectl get %s\n", arguments)
	clients, err := kubernetes.NewForConfig(s.Admin)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	request := clients.RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	raw, err := request.Do(ctx).Raw()
	if err != nil {
		return fmt.Errorf("kubectl get %s: %w", arguments, err)
	}
	table := &metav1.Table{}
	if err := json.Unmarshal(raw, table); err != nil {
		return fmt.Errorf("parsing a table: %w", err)
	}
	var text bytes.Buffer
	if err := printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(table, &text); err != nil {
		return fmt.Errorf("printing a table: %w", err)
	}
	fmt.Println(indented(text.String()))
	return nil
}

// run runs a program that make builds, prints the command and its output, and returns the output.
func (s *demo) run(ctx context.Context, program string, arguments ...string) (string, error) {
	fmt.Printf("\n    $ %s\n", strings.ReplaceAll(strings.Join(append([]string{program}, arguments...), " "), s.Dir+"/", ""))
	out, err := s.output(ctx, program, arguments...)
	fmt.Println(indented(out))
	return out, err
}

// output runs a program that make builds, as a user who may do everything, and returns its output.
func (s *demo) output(ctx context.Context, program string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, filepath.Join(s.Bin, program), arguments...)
	command.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig())
	out, err := command.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("running %s: %w: %s", program, err, out)
	}
	return string(out), nil
}
