package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/fettle-io/fettle/internal/contain"
	"github.com/fettle-io/fettle/internal/core"
	"github.com/fettle-io/fettle/internal/pass"
)

// runner makes the calls of one pass. One goroutine calls its methods, and each task has its own
// goroutine.
type runner struct {
	engine *Engine
	pass   *pass.Pass
	// stages has the open stages with tasks, in the order of their opening.
	stages []*openStage
	tasks  map[taskKey]*openTask
	// answers has the results of tasks. The field pending counts results still to come.
	answers chan answer
	pending int
}

type taskKey struct {
	stage pass.Stage
	task  int
}

// openStage is a stage with tasks.
type openStage struct {
	stage pass.Stage
	// running counts the tasks under way, and waiting has the others.
	running int
	waiting []*openTask
	// expired returns why the stage starts no more tasks, and nil while it does.
	expired func() error
	// limit returns the context of a task.
	limit func() (context.Context, context.CancelFunc)
	end   context.CancelFunc
}

// openTask is a task that hasn't ended.
type openTask struct {
	key taskKey
	// batches has the calls of the task. Those of one batch run in parallel.
	batches chan []pass.Call
	// first is the first batch.
	first []pass.Call
	// pending counts the calls without a result.
	pending int
}

type answer struct {
	call   pass.Call
	result pass.Result
}

// run makes the calls of a pass until the pass is over. It gives up if the context ends before the
// first write, or if a dialect panics while it writes statuses.
func (e *Engine) run(ctx context.Context, p *pass.Pass) error {
	r := &runner{engine: e, pass: p, tasks: map[taskKey]*openTask{}, answers: make(chan answer)}
	defer r.drain()
	var last *openTask
	for wrote := false; ; {
		calls := p.Calls()
		if err := ctx.Err(); err != nil && !wrote {
			return err // without reporting a decision: a removed cluster has no series
		}
		e.report(p)
		wrote = !p.Deciding()
		r.endTask(last, calls)
		r.addCalls(ctx, calls)
		if last = nil; p.Over() {
			return nil
		}
		if r.startTasks() { //nolint:contextcheck // each stage makes the contexts of its tasks
			continue // skipped calls have their results at once
		}
		if r.pending == 0 {
			return errors.New("the pass is not over, and no call is under way; this is a bug in Fettle, report it")
		}
		a := <-r.answers
		r.pending--
		if a.call.Kind == pass.WriteStatuses && panicked(a.result.Err) {
			return a.result.Err
		}
		last = r.tasks[taskKey{a.call.Stage, a.call.Task}]
		last.pending--
		p.Done(a.call, a.result)
	}
}

// addCalls queues new calls. The calls of one step of a task form a batch.
func (r *runner) addCalls(ctx context.Context, calls []pass.Call) {
	for len(calls) > 0 {
		key, n := taskKey{calls[0].Stage, calls[0].Task}, 1
		for n < len(calls) && calls[n].Stage == key.stage && calls[n].Task == key.task {
			n++
		}
		batch := calls[:n]
		calls = calls[n:]
		if t := r.tasks[key]; t != nil {
			r.send(t, batch)
			continue
		}
		s := r.stageOf(ctx, &batch[0])
		s.waiting = append(s.waiting, &openTask{key: key, first: batch, batches: make(chan []pass.Call, 1)})
	}
}

// send sends a batch to a task. It doesn't block, since the task has answered all batches before.
func (r *runner) send(t *openTask, batch []pass.Call) {
	t.pending += len(batch)
	r.pending += len(batch)
	t.batches <- batch
}

// stageOf returns the open stage of a call.
func (r *runner) stageOf(ctx context.Context, c *pass.Call) *openStage {
	if i := slices.IndexFunc(r.stages, func(s *openStage) bool { return s.stage == c.Stage }); i >= 0 {
		return r.stages[i]
	}
	s := &openStage{stage: c.Stage}
	limit := taskTimeout(c.Stage)
	if !c.Until.IsZero() {
		limit = min(limit, max(0, c.Until.Sub(r.engine.Now())))
	}
	stage := ctx
	if c.Stage == pass.ReadingAhead { // a read that is cut off changes nothing, and needs no grace
		stage, s.end = context.WithTimeout(ctx, limit)
		s.limit = func() (context.Context, context.CancelFunc) { return context.WithTimeout(stage, limit) }
	} else {
		stage, s.end = context.WithTimeoutCause(ctx, stageTimeout, errStageTimeout)
		s.limit = func() (context.Context, context.CancelFunc) { return withGrace(ctx, limit) }
	}
	s.expired = func() error { return context.Cause(stage) }
	r.stages = append(r.stages, s)
	return s
}

// startTasks starts waiting tasks up to the limit. Once a stage has expired, or the pass is
// cancelled, it skips the calls of waiting tasks and reports that it did.
func (r *runner) startTasks() (skipped bool) {
	for _, s := range r.stages {
		for s.running < parallelCalls && len(s.waiting) > 0 {
			t := s.waiting[0]
			s.waiting = s.waiting[1:]
			if err := s.expired(); err != nil {
				for _, c := range t.first {
					r.pass.Done(c, pass.Result{Clock: r.engine.readClock(), Err: err, Skipped: true})
				}
				skipped = true
				continue
			}
			s.running++
			r.tasks[t.key] = t
			go r.runTask(t, s.limit)
			r.send(t, t.first)
		}
	}
	return skipped
}

// endTask ends a task without new calls, and its stage with the last task. A stage that opens
// again, or whose tasks follow each other, then has its whole time again.
func (r *runner) endTask(t *openTask, calls []pass.Call) {
	if t == nil || t.pending > 0 {
		return
	}
	if slices.ContainsFunc(calls, func(c pass.Call) bool { return !c.First && c.Stage == t.key.stage && c.Task == t.key.task }) {
		return
	}
	close(t.batches)
	delete(r.tasks, t.key)
	for _, s := range r.stages {
		if s.stage == t.key.stage {
			s.running--
		}
	}
	r.endStages()
}

func (r *runner) endStages() {
	r.stages = slices.DeleteFunc(r.stages, func(s *openStage) bool {
		over := s.running == 0 && len(s.waiting) == 0
		if over {
			s.end()
		}
		return over
	})
}

// drain waits for the calls under way when a pass is given up, so that none runs beside the next
// pass.
func (r *runner) drain() {
	for ; r.pending > 0; r.pending-- {
		<-r.answers
	}
	for _, t := range r.tasks {
		close(t.batches)
	}
	for _, s := range r.stages {
		s.end()
	}
}

// runTask makes the calls of one task.
func (r *runner) runTask(t *openTask, limit func() (context.Context, context.CancelFunc)) {
	ctx, cancel := limit()
	defer cancel()
	for batch := range t.batches {
		var group errgroup.Group
		group.SetLimit(parallelCalls)
		for _, c := range batch {
			group.Go(func() error {
				r.answers <- answer{c, r.call(ctx, c)}
				return nil
			})
		}
		_ = group.Wait()
	}
}

// call makes one call. A panic is an error of the call.
func (r *runner) call(ctx context.Context, c pass.Call) pass.Result {
	ctx, cancel := context.WithTimeout(ctx, timeout(&c))
	defer cancel()
	result := pass.Result{Began: r.engine.Now()}
	result.Err = contain.Run(func() error { return r.engine.call(ctx, &c, &result) })
	result.Panicked = panicked(result.Err)
	result.CutOff = result.Err != nil && errors.Is(ctx.Err(), context.Canceled)
	result.Clock = r.engine.readClock()
	return result
}

// call makes a call and stores what it returns.
func (e *Engine) call(ctx context.Context, c *pass.Call, r *pass.Result) (err error) {
	switch c.Kind {
	case pass.ReportBlocked, pass.ReadNode, pass.WriteStatuses, pass.ReadPolicy, pass.WriteConditions, pass.WithdrawConfirmation:
		return e.callDialect(ctx, c, r)
	case pass.CreateRepair:
		r.Repair, r.OK, err = e.Ledger.Create(ctx, *c.NewRepair)
	case pass.UpdateRepair:
		r.Repair, r.OK, err = e.Ledger.Update(ctx, c.Repair, c.Text, c.Refused)
	case pass.ListRunning:
		r.Repairs, err = e.LiveRepairs.Running(ctx)
	case pass.DeleteRepair:
		r.OK, err = e.RepairDeleter.Delete(ctx, c.Repair)
	case pass.ReadQuorum:
		r.Survives, err = e.Quorum.Survives(ctx, c.Target)
	case pass.FindSibling:
		r.ID, r.OK = e.Siblings(c.Target)
	case pass.AcquireLease:
		r.OK, err = e.NodeLeases.Acquire(ctx, c.Target, c.Holder, c.For)
	case pass.ReleaseLease:
		r.OK, err = e.NodeLeases.Release(ctx, c.Node, c.Holder, c.At)
	case pass.StartRemedy:
		r.RemedyResult, err = e.Remedies[c.RemedyCall.Step.Remedy].Start(ctx, *c.RemedyCall)
	case pass.StopRequest, pass.WithdrawRequest:
		r.RemedyResult, err = e.callRequestRemedy(ctx, c)
	case pass.ReadClock:
	}
	return err
}

// callDialect makes a call of a dialect.
func (e *Engine) callDialect(ctx context.Context, c *pass.Call, r *pass.Result) (err error) {
	dialect := e.Dialects[c.Dialect]
	switch c.Kind { //nolint:exhaustive // the others are no calls of dialects
	case pass.ReadNode:
		r.Node, err = dialect.ReadNode(ctx, c.Target)
		return err
	case pass.ReadPolicy:
		r.Fingerprint, err = dialect.ReadPolicy(ctx, c.Policy)
		return err
	case pass.WriteStatuses:
		r.Unwritten = dialect.WriteStatuses(ctx, c.Reports)
	case pass.ReportBlocked:
		if d, is := dialect.(BlockedReporter); is {
			return d.ReportBlocked(ctx)
		}
	case pass.WriteConditions:
		if d, is := dialect.(ConditionWriter); is {
			r.OK, err = d.WriteConditions(ctx, c.Policies, c.Cluster, c.Judged)
			return err
		}
	case pass.WithdrawConfirmation:
		if d, is := dialect.(ConfirmationWithdrawer); is {
			return d.WithdrawConfirmation(ctx, c.Target)
		}
	}
	return nil
}

// callRequestRemedy stops or withdraws a request.
func (e *Engine) callRequestRemedy(ctx context.Context, c *pass.Call) (core.RemedyResult, error) {
	p, withdraws := e.Remedies[c.Request.Remedy].(RequestRemedy)
	switch {
	case !withdraws: // the pass makes this call only for remedies with requests
		return 0, fmt.Errorf("remedy %q has no requests to withdraw", c.Request.Remedy)
	case c.Kind == pass.StopRequest:
		return core.Accepted, p.Stop(ctx, c.Request, c.At)
	}
	return p.Withdraw(ctx, c.Request)
}
