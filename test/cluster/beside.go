package cluster

import (
	"testing"

	"golang.org/x/sync/errgroup"
)

// atATime is how many subtests of one test run at a time. Most of them wait most of their time.
const atATime = 3

// Subtests are subtests that run beside each other, while their test keeps its own turn among the tests of the package.
// Parallel subtests would wait until all tests of the package have had a turn, and each of those would keep its control
// plane running until then.
type Subtests struct {
	t     *testing.T
	group errgroup.Group
}

// Beside returns the subtests of a test, which run a few at a time. The test must call Wait before it returns.
func Beside(t *testing.T) *Subtests {
	t.Helper()
	return BesideN(t, atATime)
}

// BesideN returns the subtests of a test, of which n run at a time. The test must call Wait before it returns.
func BesideN(t *testing.T, n int) *Subtests {
	t.Helper()
	s := &Subtests{t: t}
	s.group.SetLimit(n)
	return s
}

// Run starts a subtest. It blocks while as many subtests run as may run at a time.
func (s *Subtests) Run(name string, test func(*testing.T)) {
	s.group.Go(func() error {
		s.t.Run(name, test)
		return nil
	})
}

// Wait returns when all subtests have ended.
func (s *Subtests) Wait() { _ = s.group.Wait() } // a subtest reports its own failures
