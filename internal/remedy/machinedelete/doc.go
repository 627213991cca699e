// Package machinedelete is the remedy that deletes a machine and leaves it to the machine's owner to
// replace it. Draining, the instance and the node are the business of the machine's own controller.
package machinedelete
