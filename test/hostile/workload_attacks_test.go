package hostile

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// attack is a hostile behaviour of a server.
type attack struct {
	// arm replaces answers of the server.
	arm func(*workloadServer)
	// says is what Fettle says of the cluster in the end. It is empty for an attack that costs no more than an honest
	// cluster.
	says string
	// bound is set if Fettle counts the attack as an exceeded bound.
	bound bool
}

// workloadAttacks are what a hostile workload cluster may try. Each of them lasts as long as the test.
func workloadAttacks() map[string]attack {
	return map[string]attack{
		"a list that is a gzip bomb":      {func(s *workloadServer) { s.list = bomb(http.StatusOK) }, "more than 4096 KiB", true},
		"an error that is a gzip bomb":    {func(s *workloadServer) { s.list = bomb(http.StatusInternalServerError) }, "more than 64 KiB", true},
		"a probe that is a gzip bomb":     {func(s *workloadServer) { s.ready = bomb(http.StatusOK) }, "more than 64 KiB", true},
		"a page without end":              {func(s *workloadServer) { s.list = endlessPage }, "more than 4096 KiB", true},
		"a page of very many empty nodes": {func(s *workloadServer) { s.list = emptyNodes }, "more than 10000 nodes", true},
		"a list of another kind":          {func(s *workloadServer) { s.list = otherKind }, "something else where a node belongs", false},
		"pages without end":               {func(s *workloadServer) { s.list = endlessPages }, "more than 10000 nodes", true},
		"empty pages without end":         {func(s *workloadServer) { s.list = emptyPages }, "does not go on as it must", true},
		"a huge token":                    {func(s *workloadServer) { s.list = hugeToken }, "does not go on as it must", true},
		"huge strings":                    {func(s *workloadServer) { s.list = hugeStrings }, "take more than 39 MiB", true},
		"a redirection":                   {func(s *workloadServer) { s.list = redirection("https://127.0.0.1:1/api/v1/nodes") }, "redirects to another address", true},
		"huge headers":                    {func(s *workloadServer) { s.list = hugeHeaders }, "does not answer", false},
		"100,000 nodes":                   {func(s *workloadServer) { s.nodes = manyNodes(100_000) }, "more than 10000 nodes", true},
		"a huge event":                    {func(s *workloadServer) { s.watch = hugeEvent }, "an event of a watch of more than 2048 KiB", true},
		"a watch that is a gzip bomb":     {func(s *workloadServer) { s.watch = bomb(http.StatusOK) }, "did not request", true},
		"a watch in JSON without end":     {func(s *workloadServer) { s.watch = endlessJSON }, "did not request", true},
		"an event that fails with a bomb": {func(s *workloadServer) { s.watch = hugeFailure }, "something else", false},
		"new nodes without end":           {func(s *workloadServer) { s.watch = endlessNodes }, "more than 10000 nodes", true},
		"watches that are out of date":    {func(s *workloadServer) { s.watch = outOfDate }, "out of date right after a list", true},
		"events of one node without end":  {func(s *workloadServer) { s.watch = endlessEvents }, "", false},
	}
}

func bomb(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", workloadProtobuf)
		w.WriteHeader(status)
		for range 32 {
			if _, err := w.Write(zeros()); err != nil {
				return
			}
		}
	}
}

// zeros returns 16 MiB of zeros, compressed. Repeated, they are one stream. Compressing them for each request would take
// the time of the tests beside.
var zeros = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(make([]byte, 16<<20))
	_ = z.Close()
	return b.Bytes()
})

// flood writes the same bytes until the reader stops.
func flood(w io.Writer, chunk []byte) {
	for range 1 << 30 / len(chunk) {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

func endlessPage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", workloadProtobuf)
	flood(w, bytes.Repeat(encoded(workloadNode("again")), 1000))
}

// listOf returns a page with anything for its items.
func listOf(kind string, items []byte) []byte {
	about := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "v1")
	about = protowire.AppendString(protowire.AppendTag(about, 2, protowire.BytesType), kind)
	body := protowire.AppendBytes(protowire.AppendTag([]byte("k8s\x00"), 1, protowire.BytesType), about)
	return protowire.AppendBytes(protowire.AppendTag(body, 2, protowire.BytesType), items)
}

func emptyNodes(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", workloadProtobuf)
	_, _ = w.Write(listOf("NodeList", bytes.Repeat([]byte{0x12, 0}, 1<<20)))
}

func otherKind(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", workloadProtobuf)
	_, _ = w.Write(listOf("PartialObjectMetadataList", bytes.Repeat([]byte{0x12, 0}, 1<<20)))
}

func endlessPages(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	list := &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "1", Continue: strconv.Itoa(from + 1)}}
	for i := range 50 {
		list.Items = append(list.Items, *workloadNode(fmt.Sprintf("node-%d-%d", from, i)))
	}
	sendObject(w, list)
}

func emptyPages(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	sendObject(w, &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "1", Continue: strconv.Itoa(from + 1)}})
}

func hugeToken(w http.ResponseWriter, _ *http.Request) {
	list := &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "1", Continue: strings.Repeat("x", 1<<20)}}
	list.Items = append(list.Items, *workloadNode("a"))
	sendObject(w, list)
}

// hugeStrings sends pages within their bounds, whose nodes have labels that add up.
func hugeStrings(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	list := &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "1", Continue: strconv.Itoa(from + 1)}}
	for i := range 50 {
		n := workloadNode(fmt.Sprintf("node-%d-%d", from, i))
		n.Labels = map[string]string{}
		for l := range 200 {
			n.Labels[fmt.Sprintf("label-%d", l)] = fmt.Sprintf("%d-%d-%d-%s", from, i, l, strings.Repeat("x", 230))
		}
		list.Items = append(list.Items, *n)
	}
	sendObject(w, list)
}

func redirection(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusTemporaryRedirect) }
}

func hugeHeaders(w http.ResponseWriter, r *http.Request) {
	for i := range 1000 {
		w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 1000))
	}
	emptyPages(w, r)
}

func manyNodes(count int) []*corev1.Node {
	nodes := make([]*corev1.Node, count)
	for i := range nodes {
		nodes[i] = workloadNode(fmt.Sprintf("node-%d", i))
	}
	return nodes
}

func hugeEvent(w http.ResponseWriter, _ *http.Request) {
	beginWatch(w)
	_, _ = w.Write(binary.BigEndian.AppendUint32(nil, 1<<30))
	flood(w, make([]byte, 1<<20))
}

func endlessJSON(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"`)
	flood(w, bytes.Repeat([]byte("x"), 1<<20))
}

func hugeFailure(w http.ResponseWriter, _ *http.Request) {
	beginWatch(w)
	status := &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Message: strings.Repeat("x", 1<<20)}
	_, _ = w.Write(frameOf(watch.Error, status))
	flush(w)
}

func endlessNodes(w http.ResponseWriter, r *http.Request) {
	beginWatch(w)
	for i := 0; r.Context().Err() == nil; i++ {
		if _, err := w.Write(frameOf(watch.Added, workloadNode(fmt.Sprintf("new-%d", i)))); err != nil {
			return
		}
	}
}

func endlessEvents(w http.ResponseWriter, _ *http.Request) {
	beginWatch(w)
	n := workloadNode("node-0")
	n.ResourceVersion = "2"
	flood(w, bytes.Repeat(frameOf(watch.Modified, n), 1000))
}

func outOfDate(w http.ResponseWriter, _ *http.Request) {
	beginWatch(w)
	_, _ = w.Write(frameOf(watch.Error, &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired}))
	flush(w)
}

// drip answers one byte at a time, for as long as the request lasts.
func drip(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", workloadProtobuf)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
			_, _ = w.Write([]byte{'k'})
			flush(w)
		}
	}
}

// trickle answers with a page of one node after a while, and says each time that there is another.
func trickle(w http.ResponseWriter, r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-time.After(200 * time.Millisecond):
		from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		list := &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "1", Continue: strconv.Itoa(from + 1)}}
		list.Items = append(list.Items, *workloadNode(fmt.Sprintf("node-%d", from)))
		sendObject(w, list)
	}
}

// mute accepts connections and never answers a handshake.
func mute(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listening: %v", err)
	}
	t.Cleanup(func() { l.Close() })
	return "https://" + l.Addr().String()
}
