package metal

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-io/fettle/api/fettle/v1alpha1"
	"github.com/fettle-io/fettle/test/cluster"
)

// shown is what Fettle has shown since the site began: each revision of the objects that it writes, its logs and the series of its metrics. Those of
// processes that were killed are among them.
type shown struct {
	mu        sync.Mutex
	revisions []place
	logs      map[string]string // by file; the text of a process that has not ended is empty
	series    map[string]bool   // without their values
	killed    int               // processes
}

// places returns all of it.
func (s *shown) places() []place {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.revisions)
	for file, text := range s.logs {
		if text == "" {
			raw, _ := os.ReadFile(file) // what can't be read shows nothing
			text = string(raw)
		}
		all = append(all, place{"log", file, text})
	}
	if len(s.series) > 0 {
		all = append(all, place{"metrics", "of Fettle", strings.Join(slices.Collect(maps.Keys(s.series)), "\n")})
	}
	return all
}

func (s *shown) addRevision(kind string, u *unstructured.Unstructured) {
	text, err := json.Marshal(u.Object)
	if err != nil {
		text = fmt.Appendf(nil, "%v", u.Object)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revisions = append(s.revisions, place{"revision of " + kind, u.GetName() + " at " + u.GetResourceVersion(), string(text)})
}

func (s *shown) addLog(file, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.logs == nil {
		s.logs = map[string]string{}
	}
	s.logs[file] = text
}

func (s *shown) addPage(page string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.series == nil {
		s.series = map[string]bool{}
	}
	for line := range strings.Lines(page) {
		if end := strings.LastIndexByte(line, ' '); end > 0 && line[0] != '#' {
			s.series[line[:end]] = true
		}
	}
}

func (s *shown) addKill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killed++
}

func (s *shown) kills() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.killed
}

// records keeps each revision of the objects that Fettle writes, until the test ends. Their kinds must have been installed.
func (s *site) records(t *testing.T) {
	t.Helper()
	watching, err := client.NewWithWatch(s.Config, client.Options{})
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for kind, version := range map[string]schema.GroupVersion{
		"BMC": v1alpha1.GroupVersion, "PowerRemediation": v1alpha1.GroupVersion, "SelfFenceRemediation": v1alpha1.GroupVersion, "Repair": v1alpha1.GroupVersion,
		"Event": {Version: "v1"},
	} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(version.WithKind(kind + "List"))
		group.Go(func() { s.shown.record(ctx, watching, kind, list) })
	}
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
}

// record keeps each revision of the objects of a kind until the context ends. A watch that has ended is begun anew.
func (s *shown) record(ctx context.Context, c client.WithWatch, kind string, list *unstructured.UnstructuredList) {
	_ = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		watch, err := c.Watch(ctx, list.DeepCopy())
		if err != nil {
			return false, nil // the API server is away for a while
		}
		defer watch.Stop()
		for e := range watch.ResultChan() {
			if u, is := e.Object.(*unstructured.Unstructured); is {
				s.addRevision(kind, u)
			}
		}
		return false, nil
	})
}

// StartFettle is StartFettleWith with a kubeconfig of Fettle's service account.
func (s *site) StartFettle(t *testing.T, args ...string) *cluster.Fettle {
	t.Helper()
	return s.StartFettleWith(t, s.FettleKubeconfig(t), args...)
}

// StartFettleWith starts Fettle. Its log and its metrics are kept for the end of the site.
func (s *site) StartFettleWith(t *testing.T, kubeconfig string, args ...string) *cluster.Fettle {
	t.Helper()
	s.scrapers.Do(func() {
		s.token = s.MetricsReader(t)
	})
	address := cluster.FreeAddress(t)
	_ = t.TempDir() // the folder of the log goes after it was read
	var f *cluster.Fettle
	t.Cleanup(func() {
		if f != nil {
			s.keepLog(t, f)
		}
	})
	f = s.Cluster.StartFettleWith(t, kubeconfig, append(slices.Clone(args), "--metrics-bind-address="+address)...)
	s.shown.addLog(f.LogFile(), "")
	stop := s.scrapes("https://" + address + "/metrics")
	t.Cleanup(func() {
		if err := stop(!f.Ended() && !t.Failed()); err != nil {
			t.Errorf("reading the metrics: %v", err)
		}
	})
	return f
}

// keepLog keeps the log of a process that has ended.
func (s *site) keepLog(t *testing.T, f *cluster.Fettle) {
	t.Helper()
	text, err := os.ReadFile(f.LogFile())
	if err != nil {
		t.Errorf("reading a log: %v", err)
	}
	s.shown.addLog(f.LogFile(), string(text))
	if f.Killed() {
		s.shown.addKill()
	}
}

// scrapes reads the metrics of a process every two seconds until it has ended, or has served none for a minute. The returned function ends that.
// With once it reads them once more, and returns why that was not possible.
func (s *site) scrapes(url string) (stop func(once bool) error) {
	browser := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		served, tries := false, 0
		_ = wait.PollUntilContextCancel(ctx, 2*time.Second, true, func(ctx context.Context) (bool, error) {
			err := s.scrape(ctx, browser, url)
			served = served || err == nil
			tries++
			return (served || tries == 30) && err != nil && !errors.Is(err, errAnswer), nil
		})
	}()
	return func(once bool) error {
		cancel()
		<-ended
		if !once {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), searchesIn)
		defer cancel()
		var last error
		err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			last = s.scrape(ctx, browser, url)
			return last == nil, nil
		})
		return errors.Join(err, last)
	}
}

// errAnswer is the error of a process that has answered.
var errAnswer = errors.New("the metrics were not as expected")

// scrape keeps the metrics of a process.
func (s *site) scrape(ctx context.Context, browser *http.Client, url string) error {
	page, err := get(ctx, browser, url, s.token)
	if err != nil {
		return err
	}
	if !strings.Contains(page, "\nfettle_") {
		return fmt.Errorf("%w: they have none of Fettle", errAnswer)
	}
	s.shown.addPage(page)
	return nil
}

func get(ctx context.Context, browser *http.Client, url, token string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := browser.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%w: the answer is %d: %s", errAnswer, answer.StatusCode, text)
	}
	return string(text), err
}
