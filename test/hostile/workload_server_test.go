package hostile

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

// workloadProtobuf is the content type of nodes.
const workloadProtobuf = "application/vnd.kubernetes.protobuf"

// workloadServer plays the API server of a workload cluster, over TLS. It is honest unless a handler replaces an
// answer.
type workloadServer struct {
	*httptest.Server

	// ready, list, watch and node answer in place of an honest server where they are not nil.
	ready, list, watch, node http.HandlerFunc

	mu       sync.Mutex
	nodes    []*corev1.Node
	revision int
	watchers map[chan []byte]bool
	requests map[string]int
	// turnsOver counts the lists that the client gave up.
	turnsOver int
}

func newWorkloadServer(t *testing.T, nodes int) *workloadServer {
	t.Helper()
	s := &workloadServer{revision: 1, watchers: map[chan []byte]bool{}, requests: map[string]int{}}
	for i := range nodes {
		s.nodes = append(s.nodes, workloadNode(fmt.Sprintf("node-%d", i)))
	}
	s.Server = httptest.NewUnstartedServer(s)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func workloadNode(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1", UID: "uid-of-" + "node"},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour)),
		}}},
	}
}

// ServeHTTP implements http.Handler.
func (s *workloadServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what, own, honest := "list", s.list, s.answerList
	switch {
	case r.URL.Path == "/readyz":
		what, own, honest = "ready", s.ready, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }
	case r.URL.Path != "/api/v1/nodes":
		what, own, honest = "node", s.node, s.answerNode
	case r.URL.Query().Get("watch") == "true":
		what, own, honest = "watch", s.watch, s.answerWatch
	}
	s.mu.Lock()
	s.requests[what]++
	s.mu.Unlock()
	if own == nil {
		own = honest
	}
	own(w, r)
	if what == "list" && r.Context().Err() != nil {
		s.mu.Lock()
		s.turnsOver++
		s.mu.Unlock()
	}
}

// turnsOverOf returns how often clients of servers have given up a list, as Fettle does when a turn is over.
func turnsOverOf(servers []*workloadServer) int {
	over := 0
	for _, s := range servers {
		s.mu.Lock()
		over += s.turnsOver
		s.mu.Unlock()
	}
	return over
}

func (s *workloadServer) requestCount(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[what]
}

// answerList answers with a page, as an honest API server does.
func (s *workloadServer) answerList(w http.ResponseWriter, r *http.Request) {
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	s.mu.Lock()
	list := &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.revision)}}
	for i := from; i < len(s.nodes) && len(list.Items) < limit; i++ {
		list.Items = append(list.Items, *s.nodes[i].DeepCopy())
	}
	if from+len(list.Items) < len(s.nodes) {
		list.Continue = strconv.Itoa(from + len(list.Items))
	}
	s.mu.Unlock()
	sendObject(w, list)
}

// answerNode answers with one node.
func (s *workloadServer) answerNode(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		if r.URL.Path == "/api/v1/nodes/"+n.Name {
			sendObject(w, n.DeepCopy())
			return
		}
	}
	http.NotFound(w, r)
}

// setReady changes the Ready condition of a node, and tells all watches.
func (s *workloadServer) setReady(i int, ready corev1.ConditionStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	s.nodes[i].ResourceVersion = strconv.Itoa(s.revision)
	if c := &s.nodes[i].Status.Conditions[0]; c.Status != ready {
		c.Status, c.LastTransitionTime = ready, metav1.Now()
	}
	frame := frameOf(watch.Modified, s.nodes[i])
	for each := range s.watchers {
		each <- frame
	}
}

// answerWatch streams changes from the requested revision on.
func (s *workloadServer) answerWatch(w http.ResponseWriter, r *http.Request) {
	news := make(chan []byte, 1000)
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	s.mu.Lock()
	for _, n := range s.nodes {
		if revision, _ := strconv.Atoi(n.ResourceVersion); revision > from && len(news) < cap(news) {
			news <- frameOf(watch.Modified, n)
		}
	}
	s.watchers[news] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.watchers, news)
		s.mu.Unlock()
	}()
	beginWatch(w)
	for {
		select {
		case <-r.Context().Done():
			return
		case frame := <-news:
			_, _ = w.Write(frame)
			flush(w)
		}
	}
}

func beginWatch(w http.ResponseWriter) {
	w.Header().Set("Content-Type", workloadProtobuf+";stream=watch")
	w.WriteHeader(http.StatusOK)
	flush(w)
}

func flush(w http.ResponseWriter) {
	if f, can := w.(http.Flusher); can {
		f.Flush()
	}
}

// encoded returns an object as it is sent.
func encoded(object runtime.Object) []byte {
	if err := func() error {
		kinds, _, err := scheme.Scheme.ObjectKinds(object)
		if err == nil {
			object.GetObjectKind().SetGroupVersionKind(kinds[0])
		}
		return err
	}(); err != nil {
		panic(err)
	}
	var b bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &b); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func sendObject(w http.ResponseWriter, object runtime.Object) {
	w.Header().Set("Content-Type", workloadProtobuf)
	_, _ = w.Write(encoded(object))
}

// frameOf returns an event of a watch as it is sent.
func frameOf(of watch.EventType, object runtime.Object) []byte {
	event := &metav1.WatchEvent{Type: string(of), Object: runtime.RawExtension{Raw: encoded(object)}}
	body, err := event.Marshal()
	if err != nil {
		panic(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// kubeconfig returns a kubeconfig of the server, with a token.
func (s *workloadServer) kubeconfig() []byte {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return kubeconfigTo(s.URL, "certificate-authority-data: "+base64.StdEncoding.EncodeToString(authority))
}

func kubeconfigTo(url, trust string) []byte {
	return fmt.Appendf(nil, "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"+
		"clusters: [{name: k, cluster: {server: %q, %s}}]\nusers: [{name: u, user: {token: secret-token}}]\n", url, trust)
}
