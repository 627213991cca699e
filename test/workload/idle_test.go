package workload

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/workload"
	"github.com/fettle-io/fettle/test/cluster"
)

// The load of the benchmark.
const (
	idleClusters = 100
	nodesOfEach  = 20
	idleFor      = time.Minute
	// beatEvery is how often the kubelet of an idle node writes its status.
	beatEvery = 5 * time.Minute
)

// worldVariable makes the benchmark's own binary serve the workload clusters, in another process.
const worldVariable = "FETTLE_TEST_WORKLOAD_CLUSTERS"

// BenchmarkIdleClusters prints what a connection to an idle workload cluster costs: heap, goroutines and processor. All
// clusters are one API server, behind a proxy for each that shows 20 nodes of its own.
//
//	go test ./test/workload -run ^$ -bench IdleClusters -benchtime 1x
func BenchmarkIdleClusters(b *testing.B) {
	c := cluster.Start(b, cluster.Options{Args: []string{"--controllers=*,-node-lifecycle-controller"}})
	populate(b, c)
	addresses := startWorld(b, c)
	for b.Loop() {
		before := settled()
		clusters, stop := connectTo(b, addresses)
		after := settled()
		busy := processor(b)
		<-time.After(idleFor)
		perMinute := processor(b) - busy
		b.ReportMetric(float64(after.heap-before.heap)/idleClusters/1024, "KiB/cluster")
		b.ReportMetric(float64(after.stacks-before.stacks)/idleClusters/1024, "KiB-stack/cluster")
		b.ReportMetric(float64(after.goroutines-before.goroutines)/idleClusters, "goroutines/cluster")
		b.ReportMetric(perMinute.Seconds()*1000/idleClusters, "cpu-ms/cluster/minute")
		b.ReportMetric(0, "ns/op")
		runtime.KeepAlive(clusters)
		stop()
	}
}

type use struct {
	heap, stacks int64
	goroutines   int
}

// settled returns what is in use after garbage collection.
func settled() use {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return use{heap: int64(m.HeapAlloc), stacks: int64(m.StackInuse), goroutines: runtime.NumGoroutine()}
}

func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatalf("asking for the use of the processor: %v", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// populate creates the nodes of all clusters, as large as real ones.
func populate(b *testing.B, c *cluster.Cluster) {
	b.Helper()
	var writers sync.WaitGroup
	for i := range idleClusters {
		writers.Go(func() {
			for j := range nodesOfEach {
				n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
					Name: fmt.Sprintf("c%d-n%d", i, j), Labels: map[string]string{"cluster": strconv.Itoa(i), "kubernetes.io/os": "linux"},
				}}
				if err := c.Create(cluster.Context(b), n); err != nil {
					b.Errorf("creating a node: %v", err)
					return
				}
				n.ResourceVersion = "" // controllers write to it too
				for k := range 40 {
					digest := strings.Repeat(strconv.Itoa(k%10), 64)
					n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{
						"registry.example/team/image-" + strconv.Itoa(k) + "@sha256:" + digest, "registry.example/team/image-" + strconv.Itoa(k) + ":v1",
					}, SizeBytes: 1 << 27})
				}
				for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
					n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
				}
				if err := c.Status().Update(cluster.Context(b), n); err != nil {
					b.Errorf("writing the status of a node: %v", err)
				}
			}
		})
	}
	writers.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

// secrets returns a kubeconfig for each cluster, by name.
type secrets []string

func (s secrets) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	i, err := strconv.Atoi(strings.TrimSuffix(key.Name, "-kubeconfig"))
	if err != nil {
		return err
	}
	text := "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n" +
		"clusters: [{name: k, cluster: {server: '" + s[i] + "', insecure-skip-tls-verify: true}}]\nusers: [{name: u, user: {token: t}}]\n"
	u, _ := obj.(*unstructured.Unstructured)
	return unstructured.SetNestedField(u.Object, base64.StdEncoding.EncodeToString([]byte(text)), "data", "value")
}

func connectTo(b *testing.B, addresses []string) (*workload.Connections, func()) {
	b.Helper()
	clusters := workload.New(workload.Config{
		Secrets: secrets(addresses), Now: time.Now, Wake: func(types.NamespacedName) {}, Log: logr.Discard(), UserAgent: "fettle/bench",
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- clusters.Start(ctx) }()
	began := time.Now()
	for i := range addresses {
		clusters.Keep(types.NamespacedName{Name: strconv.Itoa(i)})
	}
	for i := range addresses {
		for c := clusters.Keep(types.NamespacedName{Name: strconv.Itoa(i)}); ; {
			if answers, why := c.Answers(); answers == core.Yes {
				break
			} else if time.Since(began) > 2*time.Minute {
				b.Fatalf("cluster %d does not answer: %s", i, why)
			}
			<-time.After(time.Millisecond)
		}
	}
	b.ReportMetric(time.Since(began).Seconds(), "s-to-connect-all")
	return clusters, func() {
		stop()
		<-ended
	}
}

// startWorld starts another process that serves the clusters, and returns their addresses.
func startWorld(b *testing.B, c *cluster.Cluster) []string {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestWorkloadClusters$", "-test.timeout", "0")
	cmd.Env = append(os.Environ(), worldVariable+"="+c.Kubeconfig())
	out, err := cmd.StdoutPipe()
	stdin, err2 := cmd.StdinPipe()
	if err != nil || err2 != nil || cmd.Start() != nil {
		b.Fatalf("starting the workload clusters: %v, %v", err, err2)
	}
	b.Cleanup(func() {
		_ = stdin.Close() // the process ends with it
		_ = cmd.Wait()
	})
	var addresses []string
	for lines := bufio.NewScanner(out); len(addresses) < idleClusters && lines.Scan(); {
		if address, is := strings.CutPrefix(lines.Text(), "cluster at "); is {
			addresses = append(addresses, address)
		}
	}
	if len(addresses) < idleClusters {
		b.Fatalf("%d workload clusters have started", len(addresses))
	}
	return addresses
}

// TestWorkloadClusters is the process that serves the clusters of a benchmark. It tests nothing.
func TestWorkloadClusters(t *testing.T) {
	kubeconfig := os.Getenv(worldVariable)
	if kubeconfig == "" {
		t.Skip("this is a part of BenchmarkIdleClusters")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatalf("reading a kubeconfig: %v", err)
	}
	config.QPS = -1
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatalf("making a transport: %v", err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatalf("reading an address: %v", err)
	}
	for i := range idleClusters {
		forward := &httputil.ReverseProxy{
			Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(target)
				r.Out.Header.Del("Authorization")
				if r.In.URL.Path == nodesPath {
					q := r.Out.URL.Query()
					q.Set("labelSelector", "cluster="+strconv.Itoa(i))
					r.Out.URL.RawQuery = q.Encode()
				}
			},
		}
		server := httptest.NewUnstartedServer(http.Handler(forward))
		server.EnableHTTP2 = true
		server.StartTLS()
		t.Cleanup(server.CloseClientConnections)
		fmt.Fprintln(os.Stdout, "cluster at", server.URL)
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	go beat(t.Context(), c)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// beat writes the statuses of all nodes, as their kubelets do.
func beat(ctx context.Context, c client.Client) {
	const all = idleClusters * nodesOfEach
	tick := time.NewTicker(beatEvery / all)
	defer tick.Stop()
	for i := 0; ; i = (i + 1) % all {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d-n%d", i%idleClusters, i/idleClusters)}}
		if c.Get(ctx, client.ObjectKeyFromObject(n), n) == nil {
			n.Status.Conditions[0].LastHeartbeatTime = metav1.Now()
			_ = c.Status().Update(ctx, n)
		}
	}
}
