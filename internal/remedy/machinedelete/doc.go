// Package machinedelete is the remedy that deletes a machine. The machine's owner replaces it. The machine's own
// controller drains the node, and deletes the instance and the node.
package machinedelete
