package selffence

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// runPod is the process of a pod. It says twenty times a second that it runs.
func runPod(p part) error {
	log, err := os.OpenFile(p.Runs, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the log of running pods: %w", err)
	}
	for {
		line, err := json.Marshal(map[string]any{
			"time": time.Now(), "node": p.Node, "boot": p.Boot, "namespace": p.Namespace, "name": p.Name, "uid": p.UID, "owner": p.Owner,
		})
		if err != nil {
			return fmt.Errorf("encoding a line of the log of running pods: %w", err)
		}
		if _, err := log.Write(append(line, '\n')); err != nil { // at once, since all pods write to it
			return fmt.Errorf("writing the log of running pods: %w", err)
		}
		<-time.After(50 * time.Millisecond)
	}
}
