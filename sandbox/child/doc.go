// Package child runs another program beside this one. The program never outlives this process, however this one ends.
//
//	c, err := child.Start(exec.Command("kwok", args...))
//	select {
//	case err := <-c.Died(): // the program ended on its own
//	case <-ctx.Done():
//	}
//	c.Stop(5 * time.Second) // SIGTERM, and SIGKILL after that time
package child
