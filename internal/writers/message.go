package writers

import "github.com/fettle-io/fettle/internal/sanitize"

// Reports of health checks about another controller.
const (
	// Condition is the type of the condition that is False while another controller writes the status.
	Condition = "SoleController"
	// Reason is the reason of the condition and of the event.
	Reason = "AnotherController"
)

// maxManagerName is the length of the longest name of a field manager.
const maxManagerName = 128

// Message returns the text about another controller that writes the status, with what to do. Targets are the
// objects that both may repair, such as machines. Remedy is the sentence that says how to stop one of them, without
// its full stop.
func Message(manager, targets, remedy string) string {
	return "The status of this health check is written by " + sanitize.Line(maxManagerName, manager) + " too, so two controllers may act on the same " + targets +
		", each within its own limits; leave it to one of them: " + remedy
}
