package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fettle-io/fettle/sandbox/stage"
)

// controllers are the controllers for namespaces and aggregated roles. The others would write to the nodes, or use the
// processor during measurements.
const controllers = "serviceaccount-controller,clusterrole-aggregation-controller"

// servers are the API servers of a run, each with its etcd, and Fettle's requests in their logs.
type servers struct {
	fs    procfs.FS
	all   []server
	audit auditLogs
}

type server struct {
	observed

	admin *rest.Config
}

// start starts the sandbox of a stage, which is one of several.
func (v *servers) start(ctx context.Context, s *stage.Stage, of int) error {
	log := &auditLog{path: filepath.Join(s.Dir, "audit.log"), user: "system:serviceaccount:" + strings.ReplaceAll(stage.Account, "/", ":")}
	s.SandboxEnvironment = lazily(os.LookupEnv, lookAtHost().Memory/float64(of))
	process, err := s.StartSandbox(ctx, "--controllers", controllers, "--audit-log", log.path)
	if err != nil {
		return err
	}
	v.all = append(v.all, server{observed{process, v.fs}, s.Admin})
	v.audit = append(v.audit, log)
	return nil
}

// usage returns the use of all of them together.
func (v *servers) usage() (usage, error) {
	sum := usage{}
	for _, s := range v.all {
		u, err := s.usage()
		if err != nil {
			return usage{}, err
		}
		sum.at = u.at
		sum.cpu += u.cpu
		sum.resident += u.resident
		sum.anonymous += u.anonymous
		sum.peak += u.peak
	}
	return sum, nil
}

// collectGarbage makes them collect their garbage now, so that they do not do so in the following seconds.
func (v *servers) collectGarbage(ctx context.Context) error {
	for _, s := range v.all {
		c, err := kubernetes.NewForConfig(s.admin)
		if err != nil {
			return fmt.Errorf("making a client: %w", err)
		}
		if err := c.CoreV1().RESTClient().Get().AbsPath("/debug/pprof/heap").Param("gc", "1").Do(ctx).Error(); err != nil {
			return fmt.Errorf("having the sandbox collect its garbage: %w", err)
		}
	}
	return nil
}

// auditLogs are the logs of several API servers, read as one log.
type auditLogs []*auditLog

func (l auditLogs) catchUp() error {
	var failed []error
	for _, a := range l {
		failed = append(failed, a.catchUp())
	}
	return errors.Join(failed...)
}

// between returns the requests from one instant until before the other, in order.
func (l auditLogs) between(from, to time.Time) []request {
	var found []request
	for _, a := range l {
		found = append(found, a.between(from, to)...)
	}
	slices.SortStableFunc(found, func(a, b request) int { return a.received.Compare(b.received) })
	return found
}

// quietSince reports whether Fettle has made only routine requests since then.
func (l auditLogs) quietSince(then time.Time) bool {
	return !l.since(then, func(r request) bool { return !r.isRoutine() })
}

// wroteSince reports whether Fettle has written anything but routine since then.
func (l auditLogs) wroteSince(then time.Time) bool {
	return l.since(then, func(r request) bool { return r.isWrite() && !r.isRoutine() })
}

func (l auditLogs) since(then time.Time, counts func(request) bool) bool {
	return slices.ContainsFunc(l, func(a *auditLog) bool {
		return slices.ContainsFunc(a.requests, func(r request) bool { return counts(r) && r.received.After(then) })
	})
}
