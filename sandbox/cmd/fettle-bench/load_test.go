package main

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestOverloaded(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	cases := map[string]struct {
		err  error
		want bool
	}{
		"no error":                        {nil, false},
		"not from the API server":         {errors.New("no route to host"), false},
		"etcd was too slow":               {&apierrors.StatusError{ErrStatus: metav1.Status{Code: 500, Message: "etcdserver: request timed out"}}, true},
		"the same, wrapped":               {fmt.Errorf("patching: %w", apierrors.NewInternalError(errors.New("busy"))), true},
		"too many requests":               {apierrors.NewTooManyRequests("busy", 1), true},
		"it took too long":                {apierrors.NewTimeoutError("busy", 1), true},
		"another client changed it":       {apierrors.NewConflict(nodes, "a", errors.New("changed")), false},
		"it is not there, nor will it be": {apierrors.NewNotFound(nodes, "a"), false},
	}
	for sentence, tc := range cases {
		t.Run(sentence, func(t *testing.T) {
			if got := overloaded(tc.err); got != tc.want {
				t.Errorf("%v: got %t, want %t", tc.err, got, tc.want)
			}
		})
	}
}
