package workload

import (
	"errors"
	"fmt"
	"time"
)

// The bounds on what one workload cluster may send. Sizes count decompressed bytes.
// docs/adr/0013-connections-to-workload-clusters.md adds them up.
const (
	// page is how many nodes the first request of a list requests. After a page that is too large, requests ask for
	// fewer.
	page = 250
	// pageBytes bounds a page. It allows 16 KiB for each node, and a page of one node may have all of it.
	pageBytes = 4 << 20
	// nodeBytes bounds a single node, and an event of a watch. An API server stores no object above 1.5 MiB.
	nodeBytes = 2 << 20
	// objectBytes bounds what guards read, which is decoded as JSON and takes many times its size in memory.
	objectBytes = 512 << 10
	// oneShotBytes bounds an answer to a command of the command line, which reads once and ends.
	oneShotBytes = 16 << 20
	// errorBytes bounds an answer that is an error, or that no object is read from. headerBytes bounds headers.
	errorBytes, headerBytes = 64 << 10, 64 << 10
	// tokenBytes bounds the continue token of a list.
	tokenBytes = 4 << 10
	// keptBytes is how much memory a node may take on average, as weigh estimates it.
	keptBytes = 4 << 10
	// streamBytes bounds the part of one answer that was received and has not been read.
	streamBytes = 1 << 20
)

// The rate at which events of one cluster are read. An event costs one token, and one more for each eventUnit of its
// size. A cluster that sends faster has to wait, and takes no more processor time than this.
const (
	eventRate, eventBurst = 2000, 40_000
	eventUnit             = 16 << 10
)

// The bounds on time.
const (
	// promptTurn and slowTurn are how long a cluster may list before other clusters do. turnsTime bounds a whole
	// list.
	promptTurn, slowTurn = 5 * time.Second, 30 * time.Second
	turnsTime            = 2 * time.Minute
	// promptLists and slowLists are how many clusters list at a time.
	promptLists, slowLists = 8, 4
	// dialTimeout bounds dialing. answerTimeout bounds the wait for headers, and for the rest of an event.
	dialTimeout, answerTimeout = 10 * time.Second, 15 * time.Second
	// readTimeout bounds a single read.
	readTimeout = 15 * time.Second
)

// DefaultNodes is how many nodes a workload cluster may have by default: twice of what Kubernetes supports.
const DefaultNodes = 10_000

// errBound is wrapped by every error about a cluster that exceeded a bound.
var errBound = errors.New("the API server sent more than is accepted")

// A boundError names the bound that a cluster exceeded. Its texts never come from the cluster.
type boundError struct {
	// name is the value of the metric's label.
	name string
	// did is the clause about what the API server did, and advice is what a user does about it.
	did, advice string
}

func (e *boundError) Error() string   { return "it " + e.did }
func (e *boundError) Unwrap() error   { return errBound }
func (e *boundError) explain() string { return e.did + "; " + e.advice }

const seeWhatAnswers = "see what answers at that address, and whether the kubeconfig names the right one"

func tooLarge(what string, most int64) error {
	return &boundError{name: "bytes", did: fmt.Sprintf("sent %s of more than %d KiB", what, most>>10), advice: seeWhatAnswers}
}

func tooManyNodes(most int) error {
	return &boundError{
		name: "nodes", did: fmt.Sprintf("has more than %d nodes", most),
		advice: "if that is right, raise --workload-cluster-max-nodes of fettle controller",
	}
}

func tooHeavy(most int) error {
	return &boundError{
		name: "memory", did: fmt.Sprintf("has nodes whose labels and conditions take more than %d MiB", keptBytes*most>>20),
		advice: "see whether its nodes have labels or conditions that nothing needs, or raise --workload-cluster-max-nodes of fettle controller",
	}
}

func tooHeavyTogether(most int) error {
	return &boundError{
		name: "memory-of-all", did: fmt.Sprintf("has nodes that are not kept, since those of all clusters take more than %d MiB and its namespace has its share of that", most>>20),
		advice: "delete health checks of clusters in its namespace that are not needed, or raise --workload-clusters-max-memory of fettle controller and its memory limit",
	}
}

// The errors of bounds whose texts need no number.
var (
	errEndless = &boundError{name: "pages", did: "sent a page of a list that does not go on as it must", advice: seeWhatAnswers}
	errTurns   = &boundError{
		name: "time", did: "does not list its nodes in the time that a cluster may take",
		advice: "see whether it is overloaded, and whether the way there is slow",
	}
	errStalled = &boundError{
		name: "time", did: "stopped in the middle of an event for " + answerTimeout.String(),
		advice: "see whether it is overloaded, and whether the way there is slow",
	}
	errRedirect = &boundError{
		name: "redirect", did: "redirects to another address, which is not followed since the credentials would go there",
		advice: "put the address that really answers into the kubeconfig",
	}
	errEncoding = &boundError{
		name: "encoding", did: "sent an answer in an encoding or type that Fettle did not request", advice: seeWhatAnswers,
	}
	errAlwaysOutdated = &boundError{
		name: "watches", did: "ends each watch as out of date right after a list", advice: "see whether its etcd is compacted all the time",
	}
)
