package power

import (
	"context"
	"slices"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"
)

// resetter is a driver of a BMC that says which commands it allows.
type resetter interface {
	// Lacks returns the commands that the BMC doesn't allow. A BMC that lists none allows all of them, as far as is known.
	Lacks(context.Context) ([]Command, Failure)
}

// needed are the commands to fence a host, with their names in Redfish.
func needed() map[Command]schemas.ResetType {
	return map[Command]schemas.ResetType{TurnOff: schemas.ForceOffResetType, TurnOn: schemas.OnResetType}
}

// Lacks reads which resets the system allows, in the system itself or in the resource to which that refers.
func (r *redfish) Lacks(ctx context.Context) ([]Command, Failure) {
	var lacks []Command
	failure := r.use(ctx, func(service *gofish.APIClient) Failure {
		system, failure := r.find(service)
		if failure.Failed() {
			return failure
		}
		for _, command := range []Command{TurnOff, TurnOn} {
			if forbids(system, needed()[command]) {
				lacks = append(lacks, command)
			}
		}
		return Failure{}
	})
	return lacks, failure
}

// forbids reports whether a system lists the resets that it allows, without this one. A list that can't be read is empty.
func forbids(system *schemas.ComputerSystem, kind schemas.ResetType) bool {
	allowed, _ := system.GetSupportedResetTypes()
	return len(allowed) > 0 && !slices.Contains(allowed, kind)
}

// ReadResets reads which commands the BMC allows. After a failure, what was read before stands.
func (h *Host) ReadResets(ctx context.Context) Failure {
	_, _, failure := h.operate(ctx, func(ctx context.Context, d Driver) Failure {
		r, ok := d.(resetter)
		if !ok {
			return Failure{} // the protocol has no such list
		}
		lacks, failure := r.Lacks(ctx)
		if !failure.Failed() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.lacks = lacks
		}
		return failure
	})
	return failure
}

// Lacks returns the names of the resets that the BMC doesn't allow, as they were read last.
func (h *Host) Lacks() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := make([]string, 0, len(h.lacks))
	for _, command := range h.lacks {
		names = append(names, string(needed()[command]))
	}
	return names
}
