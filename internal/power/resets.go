package power

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"
)

// resetsTimeout is how long reading the resets may take. A command may wait meanwhile.
const resetsTimeout = 5 * time.Second

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
		allowed, _ := system.GetSupportedResetTypes() // a list that can't be read is empty
		for _, command := range []Command{TurnOff, TurnOn} {
			if forbid(allowed, needed()[command]) {
				lacks = append(lacks, command)
			}
		}
		return Failure{}
	})
	return lacks, failure
}

// forbid reports whether there is a list of the resets that a system allows, without this one.
func forbid(allowed []schemas.ResetType, kind schemas.ResetType) bool {
	return len(allowed) > 0 && !slices.Contains(allowed, kind)
}

// ownResets returns the resets that a system itself lists. They take no other request, as those of a resource do to which it refers.
func ownResets(system *schemas.ComputerSystem) []schemas.ResetType {
	var read struct {
		Actions struct {
			Reset struct {
				Allowed []schemas.ResetType `json:"ResetType@Redfish.AllowableValues"`
			} `json:"#ComputerSystem.Reset"`
		} `json:"Actions"`
	}
	_ = json.Unmarshal(system.RawData, &read) // gofish has read the same before
	return read.Actions.Reset.Allowed
}

// ReadResets reads which commands the BMC allows. After a failure, what was read before stands.
func (h *Host) ReadResets(ctx context.Context) Failure {
	_, _, failure := h.operate(ctx, func(ctx context.Context, d Driver) Failure {
		r, ok := d.(resetter)
		if !ok {
			return Failure{} // the protocol has no such list
		}
		ctx, cancel := context.WithTimeout(ctx, resetsTimeout)
		defer cancel()
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
