// Package contain turns panics into errors, so that a panic ends the call that it happens in and not the process.
package contain

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// PanicError is a panic as an error.
type PanicError struct{ text string }

// Error says what the panic was and where it happened.
func (p *PanicError) Error() string { return p.text }

// Run calls a function and returns its error, or its panic as a *PanicError.
func Run(do func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = newPanicError(value)
		}
	}()
	return do()
}

// Group runs functions beside each other. The zero Group is ready to be used.
type Group struct {
	running sync.WaitGroup

	mu    sync.Mutex
	first *PanicError
}

// Go calls a function in a goroutine of its own.
func (g *Group) Go(do func()) {
	g.running.Go(func() {
		defer func() {
			if value := recover(); value != nil {
				g.keepFirst(newPanicError(value))
			}
		}()
		do()
	})
}

func (g *Group) keepFirst(p *PanicError) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.first == nil {
		g.first = p
	}
}

// Wait returns when all functions have. If some have panicked, it panics with the *PanicError of the first.
func (g *Group) Wait() {
	g.running.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.first != nil {
		panic(g.first)
	}
}

// newPanicError must be called by the deferred function that recovers. A panic that has been contained before keeps its place.
func newPanicError(value any) *PanicError {
	if before, is := value.(*PanicError); is {
		return before
	}
	return &PanicError{fmt.Sprintf("panic: %v, at %s", value, strings.Join(callers(), " < "))}
}

// maxCallers is how many calls are named, since a log line is bounded.
const maxCallers = 6

// callers are the calls that led to the panic, the last first.
func callers() []string {
	var counters [64]uintptr
	frames := runtime.CallersFrames(counters[:runtime.Callers(1, counters[:])])
	var calls []string
	begun := false
	for more := true; more && len(calls) < maxCallers; {
		var f runtime.Frame
		f, more = frames.Next()
		switch {
		case f.Function == "runtime.gopanic":
			begun, calls = true, nil
		case begun && !strings.HasPrefix(f.Function, "runtime."):
			calls = append(calls, fmt.Sprintf("%s (%s:%d)", f.Function[strings.LastIndex(f.Function, "/")+1:], filepath.Base(f.File), f.Line))
		}
	}
	return calls
}
