package node

// References counts the machines that refer to each node. A machine controller finds the node of a
// machine by its provider ID and addresses, which kubelets report. If a kubelet reports those of
// another machine, that machine refers to its node too. Then it is unknown to which of the two
// machines the node belongs.
//
// The zero References is ready to use. It is not safe for concurrent use.
type References struct{ nodes map[string]referrers }

// referrers counts the machines that refer to one node: those of one namespace, and those of each
// other namespace. Nearly always all are of one namespace.
type referrers struct {
	namespace string
	machines  int
	others    map[string]int
}

// Move records that a machine of a namespace refers to another node than before. Either name may be
// "" for none.
func (c *References) Move(namespace, from, to string) {
	if from == to {
		return
	}
	if of, known := c.nodes[from]; known {
		of.remove(namespace)
		if of.machines > 0 {
			c.nodes[from] = of
		} else {
			delete(c.nodes, from)
		}
	}
	if to == "" {
		return
	}
	if c.nodes == nil {
		c.nodes = map[string]referrers{}
	}
	of := c.nodes[to]
	of.add(namespace)
	c.nodes[to] = of
}

func (c *referrers) add(namespace string) {
	switch {
	case c.machines == 0:
		c.namespace, c.machines = namespace, 1
	case c.namespace == namespace:
		c.machines++
	default:
		if c.others == nil {
			c.others = map[string]int{}
		}
		c.others[namespace]++
	}
}

// remove subtracts a machine. If others remain, it moves one of their namespaces to namespace and
// machines.
func (c *referrers) remove(namespace string) {
	switch {
	case c.namespace == namespace:
		c.machines--
	case c.others[namespace] > 1:
		c.others[namespace]--
	default:
		delete(c.others, namespace)
	}
	if c.machines > 0 {
		return
	}
	for another, machines := range c.others {
		c.namespace, c.machines = another, machines
		delete(c.others, another)
		return
	}
}

// of returns the number of machines of a namespace. The namespace "" stands for all.
func (c *referrers) of(namespace string) int {
	switch namespace {
	case c.namespace:
		return c.machines
	case "":
		all := c.machines
		for _, machines := range c.others {
			all += machines
		}
		return all
	}
	return c.others[namespace]
}

// Conflict returns a sentence that more than one machine of a namespace refers to a node, or "" if
// at most one does. The namespace "" stands for all.
func (c *References) Conflict(node, namespace string) string {
	if node == "" {
		return ""
	}
	if of := c.nodes[node]; of.of(namespace) < 2 {
		return ""
	}
	return "status.nodeRef.name is " + node + ", which another machine refers to as well, so it is not known which of them that node is"
}
