package selffence

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"testing"
)

// The roles that this program has in the namespaces of a node. It starts itself with one of them in the environment.
const (
	roleVariable = "FETTLE_TEST_ROLE"
	partVariable = "FETTLE_TEST_PART"

	roleInit    = "init"
	roleFabric  = "fabric"
	roleAgent   = "agent"
	roleKubelet = "kubelet"
	rolePod     = "pod"
)

// part is what a process of a node has to know.
type part struct {
	Node, Boot string
	// Address is that of the node in the network between the nodes.
	Address string
	// Self is this program, Agent the program of the agent, Kubeconfig that of the kubelet, and AgentKubeconfig that of the agent.
	Self, Agent, Kubeconfig, AgentKubeconfig string
	// Control is the socket on which the first process takes commands, and Watchdog that of the stand-in for the watchdog.
	Control, Watchdog string
	// Logs is a folder, and Runs the log of running pods.
	Logs, Runs string
	// Clock is what CLOCK_BOOTTIME is ahead, in seconds.
	Clock int

	// Namespace, Name, UID and Owner are those of a pod.
	Namespace, Name, UID, Owner string
}

func init() { //nolint:gochecknoinits // only here the first thread is certain
	if os.Getenv(roleVariable) == roleInit {
		runtime.LockOSThread() // a namespace of time is that of the children of one thread
	}
}

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		os.Exit(m.Run())
	}
	if err := play(role); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// play is a process of a node.
func play(role string) error {
	var p part
	if err := json.Unmarshal([]byte(os.Getenv(partVariable)), &p); err != nil {
		return fmt.Errorf("reading what this process is for: %w", err)
	}
	return map[string]func(part) error{
		roleInit: runInit, roleFabric: runFabric, roleAgent: runAgent, roleKubelet: runKubelet, rolePod: runPod,
	}[role](p)
}

// environment returns the environment of this program in a role.
func (p part) environment(role string) []string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // it has strings alone
	}
	return append(os.Environ(), roleVariable+"="+role, partVariable+"="+string(text))
}
