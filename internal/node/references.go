package node

// References counts the machines that refer to each node. What a machine controller goes by to find the node of a machine
// comes from kubelets: provider IDs and addresses. A kubelet that reports those of another machine has that machine refer
// to its node too, and of two such machines it is not known which one the node belongs to.
//
// The zero References is ready to use. It is not safe for concurrent use.
type References struct{ nodes map[string]referrers }

// referrers are the machines that refer to one node: how many there are of one namespace, and how many of each other
// one. Nearly always all are of one.
type referrers struct {
	namespace string
	machines  int
	others    map[string]int
}

// Move notes that a machine of a namespace refers to another node than before. Either name is "" for none.
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

// remove leaves no machines only where there are no others either.
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

// of counts the machines of a namespace, or of all for "".
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

// Conflict says in a sentence that more than one machine of a namespace refers to a node, and returns "" if at most one
// does. The namespace "" stands for all.
func (c *References) Conflict(node, namespace string) string {
	if node == "" {
		return ""
	}
	if of := c.nodes[node]; of.of(namespace) < 2 {
		return ""
	}
	return "status.nodeRef.name is " + node + ", which another machine refers to as well, so it is not known which of them that node is"
}
