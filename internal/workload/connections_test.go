package workload

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/internal/core"
)

// TestDroppedConnectionsAreForgotten also where Start does not run, as in a replica that does not lead.
func TestDroppedConnectionsAreForgotten(t *testing.T) {
	all := New(Config{Now: clock})
	kept := types.NamespacedName{Name: "kept"}
	all.Keep(kept)
	for i := range 100 {
		cluster := types.NamespacedName{Name: fmt.Sprint("cluster-", i)}
		all.Keep(cluster)
		all.Keep(cluster)
		all.Drop(cluster)
	}
	all.Drop(types.NamespacedName{Name: "never-kept"})
	if fresh := all.takePending(); len(fresh) != 1 || fresh[0].cluster != kept || len(all.all()) != 1 {
		t.Errorf("%d connections are held to begin, and %d are kept, want one", len(fresh), len(all.all()))
	}
}

// TestDroppedConnectionsEnd whether they had begun or not.
func TestDroppedConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		c, end := s.connects()
		defer end()
		after(time.Minute)
		if answers, why := c.Answers(); answers != core.Yes {
			t.Fatalf("it answers %s (%s)", answers, why)
		}
		c.Drop(c.cluster)
		synctest.Wait()
		attempts := len(s.times("ready"))
		after(time.Hour)
		if answers, _ := c.Answers(); answers != core.Unknown || len(s.times("ready")) != attempts || c.nodeCount+c.weight+len(c.budget.byNamespace) != 0 {
			t.Errorf("it answers %s, got %d requests more, and %d nodes of %d bytes are accounted for", answers, len(s.times("ready"))-attempts, c.nodeCount, c.weight)
		}
		if _, err := c.ReadNode(t.Context(), "a"); !errors.Is(err, errNotConnected) {
			t.Errorf("a node is read with %v", err)
		}
	})
}

// TestClustersThatExceedBoundsAreLeftForMinutes although a connection to them lasts longer than a pause.
func TestClustersThatExceedBoundsAreLeftForMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serves(t)
		heavy := make([]byte, nodeBytes+1)
		s.feed = briefly(time.Minute, heavy)
		_, end := s.connects()
		defer end()
		after(2 * time.Hour)
		s.wantGaps("list", time.Minute, time.Second, 2*time.Second, 4*time.Second, 8*time.Second, 16*time.Second, 32*time.Second,
			64*time.Second, 128*time.Second, 256*time.Second, 300*time.Second)
	})
}

// TestPanicOfOneConnectionEndsThatAlone: it is lost, told and tried again after pauses, and the process goes on.
func TestPanicOfOneConnectionEndsThatAlone(t *testing.T) {
	for sentence, plant := range map[string]func(*server){
		"while it follows": func(s *server) {
			var listed atomic.Bool
			s.list = func(w http.ResponseWriter, r *http.Request) {
				listed.Store(true)
				s.honestList(w, r)
			}
			s.onWake = func() {
				if listed.Swap(false) {
					panic("the sky falls")
				}
			}
		},
		"while it begins": func(s *server) { s.onSecret = func(context.Context) { panic("the sky falls") } },
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serves(t)
				plant(s)
				c, end := s.connects()
				defer end()
				after(time.Hour)
				if answers, why := c.Answers(); answers != core.Unknown || !strings.Contains(why, "a fault of Fettle") || strings.Contains(why, "sky") {
					t.Errorf("it answers %s (%s)", answers, why)
				}
				s.wantGaps("secret", 0, time.Second, 2*time.Second, 4*time.Second, 8*time.Second, 16*time.Second, 30*time.Second)
				attempts := len(s.times("secret"))
				if _, failed := c.attempts(); failed != uint64(attempts) {
					t.Errorf("of %d attempts %d are counted as failed", attempts, failed)
				}
				if logged := strings.Join(s.logged(), "\n"); strings.Count(logged, "the sky falls, at workload.") != attempts || len(s.times("panic")) != attempts {
					t.Errorf("of %d panics %d are counted, and told is %s", attempts, len(s.times("panic")), logged)
				}
			})
		})
	}
}
