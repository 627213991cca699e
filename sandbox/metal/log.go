package metal

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const logPeriod = 100 * time.Millisecond

// line says that a pod ran on a node in a boot at an instant.
type line struct {
	Time      time.Time `json:"time"`
	Node      string    `json:"node"`
	Boot      string    `json:"boot"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	Owner     string    `json:"owner"` // a StatefulSet, or ""
}

// podLog adds lines to a file until it is stopped.
type podLog struct {
	file  *os.File
	fleet *fleet
}

func openLog(path string, f *fleet) (*podLog, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of running pods: %w", err)
	}
	return &podLog{file: file, fleet: f}, nil
}

// Start writes the running pods again and again.
func (l *podLog) Start(ctx context.Context) error {
	ticker := time.NewTicker(logPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return l.file.Close()
		case <-ticker.C:
			if err := l.write(); err != nil {
				return err
			}
		}
	}
}

// write adds all lines of one instant at once.
func (l *podLog) write() error {
	var lines bytes.Buffer
	for _, running := range l.fleet.running() {
		if err := json.NewEncoder(&lines).Encode(running); err != nil {
			return fmt.Errorf("encoding a line of the log of running pods: %w", err)
		}
	}
	if _, err := l.file.Write(lines.Bytes()); err != nil {
		return fmt.Errorf("writing the log of running pods: %w", err)
	}
	return nil
}
