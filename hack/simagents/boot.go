package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fettle-io/fettle/internal/agent"
)

// booted is one boot of a host.
type booted struct {
	*host

	boot  string
	begun time.Time
	// gone ends with the boot.
	gone context.Context //nolint:containedctx // it is the life of this value

	once sync.Once
	mu   sync.Mutex
	dog  *time.Timer
}

func (b *booted) say(text string) {
	fmt.Printf("%s %s in boot %.8s: %s\n", time.Now().Format("15:04:05.0"), b.name, b.boot, text)
}

func (b *booted) tell(n agent.Note) { b.say(fmt.Sprint(n.Reason, " ", n.Err)) }

// boottime is the clock of the boot.
func (b *booted) boottime() time.Duration { return time.Since(b.begun) + time.Minute }

// run runs the agent. The state that it stores is gone with the boot.
func (b *booted) run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "simagent")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	return b.runAgent(ctx, agent.Directory(dir))
}

// Open implements agent.Hardware.
func (b *booted) Open(w agent.Watchdog, _ func() bool) (agent.Device, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dog == nil {
		b.dog = time.AfterFunc(w.Timeout, func() { b.press("its watchdog fires") })
	}
	b.dog.Reset(w.Timeout)
	return &device{b, w.Timeout}, nil
}

var errResets = errors.New("the process of a host that is reset ends with it")

// Reset implements agent.Hardware.
func (b *booted) Reset() error {
	go b.press("its agent resets it")
	return errResets
}

// press has the button of the host pressed, once in each boot.
func (b *booted) press(why string) {
	b.once.Do(func() {
		if b.gone.Err() != nil {
			return
		}
		b.say("RESET: " + why)
		go b.stop()
		for _, to := range []string{"off", "on"} {
			b.until(func() error {
				_, err := b.clients.CoreV1().Nodes().Patch(context.Background(), b.name, types.MergePatchType,
					fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, power, to), metav1.PatchOptions{})
				return err //nolint:wrapcheck // it is tried again
			})
			b.until(func() error {
				n, err := b.clients.CoreV1().Nodes().Get(context.Background(), b.name, metav1.GetOptions{})
				if err == nil && n.Annotations[power] != "" {
					err = errResets
				}
				return err
			})
		}
	})
}

// until tries something until it succeeds.
func (*booted) until(try func() error) {
	for try() != nil {
		time.Sleep(every / 4)
	}
}

// device is the stand-in for a watchdog.
type device struct {
	b       *booted
	timeout time.Duration
}

// State implements agent.Device.
func (d *device) State() (time.Duration, string) { return d.timeout, "simulated" }

// Pet implements agent.Device.
func (d *device) Pet() error {
	d.b.mu.Lock()
	defer d.b.mu.Unlock()
	d.b.dog.Reset(d.timeout)
	return nil
}

// Disarm implements agent.Device.
func (d *device) Disarm() error {
	d.b.mu.Lock()
	defer d.b.mu.Unlock()
	d.b.dog.Stop()
	return nil
}
