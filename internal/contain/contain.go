// Package contain turns panics into errors. A panic then ends its call, and not the process.
package contain

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// PanicError is the error of a call that panicked.
type PanicError struct{ text string }

// Error returns the value of the panic and where it happened.
func (p *PanicError) Error() string { return p.text }

// Run calls a function and returns its error. A panic becomes a *PanicError.
func Run(do func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = newPanicError(value)
		}
	}()
	return do()
}

// Group runs functions in parallel. The zero Group is ready for use.
type Group struct {
	running sync.WaitGroup

	mu    sync.Mutex
	first *PanicError
}

// Go calls a function in a new goroutine.
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

// Wait waits for all functions. If a function has panicked, Wait panics with the *PanicError of the
// first one.
func (g *Group) Wait() {
	g.running.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.first != nil {
		panic(g.first)
	}
}

// newPanicError returns the error of a recovered value. The deferred function that recovers must
// call it. A *PanicError keeps its own place.
func newPanicError(value any) *PanicError {
	if before, is := value.(*PanicError); is {
		return before
	}
	return &PanicError{fmt.Sprintf("panic: %v, at %s", value, strings.Join(callers(), " < "))}
}

// maxCallers bounds the calls that are named, since log lines are bounded.
const maxCallers = 6

// callers returns the calls that led to the panic, the innermost first.
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
