package main

import (
	"os"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// tokenPath is where client-go looks for the token of a pod.
const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// lastsLonger is longer than the API server may be away.
const lastsLonger = 90 * 24 * time.Hour

// TestTokenOutlastsOutages: the pods of agents have a token that does not end while the API server is away. Agents without a valid token could not
// renew once it is back, and those with one would not agree that they go on.
func TestTokenOutlastsOutages(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../config/selffence/daemonset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var set appsv1.DaemonSet
	if err := yaml.UnmarshalStrict(text, &set); err != nil {
		t.Fatalf("reading the DaemonSet: %v", err)
	}
	pod := set.Spec.Template.Spec
	mounted := slices.IndexFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == tokenPath })
	if mounted < 0 {
		t.Fatal("the token is one of an hour, as the API server adds it to pods")
	}
	var files []string
	for _, v := range pod.Volumes {
		if v.Name != pod.Containers[0].VolumeMounts[mounted].Name {
			continue
		}
		for _, s := range v.Projected.Sources {
			files = append(files, filesOf(t, s)...)
		}
	}
	slices.Sort(files)
	if want := []string{"ca.crt", "namespace", "token"}; !slices.Equal(files, want) {
		t.Errorf("it has the files %q, want %q", files, want)
	}
}

// filesOf returns the files of a source of a volume, and requires that a token of it lasts longer than outages.
func filesOf(t *testing.T, s corev1.VolumeProjection) []string {
	t.Helper()
	var files []string
	if token := s.ServiceAccountToken; token != nil {
		files = append(files, token.Path)
		if token.Audience != "" || token.ExpirationSeconds == nil || time.Duration(*token.ExpirationSeconds)*time.Second < lastsLonger {
			t.Errorf("the token is %+v", token)
		}
	}
	if s.ConfigMap != nil {
		for _, item := range s.ConfigMap.Items {
			files = append(files, item.Path)
		}
	}
	if s.DownwardAPI != nil {
		for _, item := range s.DownwardAPI.Items {
			files = append(files, item.Path)
		}
	}
	return files
}
