package watchdog

import "testing"

func TestStopped(t *testing.T) {
	console, events := play(t, "stopped")
	t.Log(console, events, times(t, console, "runs"))
}
func TestKilled(t *testing.T) {
	console, events := play(t, "killed")
	t.Log(console, events)
}
func TestCommanded(t *testing.T) {
	console, events := play(t, "commanded")
	t.Log(console, events)
}
