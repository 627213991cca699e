// Package child runs another program beside this one. The program never outlives this process, however the process ends.
//
//	c, err := child.Start(exec.Command("kwok", args...))
//	select {
//	case err := <-c.Died(): // the program ended by itself
//	case <-ctx.Done():
//	}
//	c.Stop(5 * time.Second) // asks the program to end, and kills it after that time
package child
