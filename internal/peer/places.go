package peer

import (
	"net"
	"net/http"
	"sync"
)

// places bounds the connections of a server. A new connection takes the place of another one which is worth less. So strangers can't keep
// agents out by connections that they leave open.
type places struct {
	mu sync.Mutex
	// all are in the order in which their last question has begun or ended.
	all []*place
}

// place is that of a connection.
type place struct {
	conn net.Conn
	// node is empty until the other side has asked a question, and so has proven that it has the key of its certificate.
	node string
	busy bool
	// refused is set once its certificate was refused.
	refused bool
}

// open adds a connection. The oldest of no known node makes room for it.
func (p *places) open(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fresh := func(o *place) bool { return o.node == "" }
	if p.count(fresh) >= maxFresh {
		p.closeFirst(fresh)
	}
	p.all = append(p.all, &place{conn: c})
}

// know adds the node at the other side of a connection. It reports whether there is room: an old connection of the same node makes room, or an idle
// one of any node.
func (p *places) know(c net.Conn, node string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.find(c)
	if own == nil {
		return false // it was closed in the meantime
	}
	if own.node == node {
		return true
	}
	if same := func(o *place) bool { return o.node == node }; p.count(same) >= maxOfNode {
		p.closeFirst(same)
	}
	known := func(o *place) bool { return o.node != "" }
	if p.count(known) >= maxKnown && !p.closeFirst(func(o *place) bool { return known(o) && !o.busy }) {
		return false
	}
	own.node = node
	return true
}

// refuse notes that the certificate of a connection was refused. It reports false if the connection was closed in the meantime.
func (p *places) refuse(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.find(c)
	if own != nil {
		own.refused = true
	}
	return own != nil
}

// change notes what becomes of a connection. It reports whether the other side has ended it before it has asked a question, or has kept silent.
func (p *places) change(c net.Conn, to http.ConnState) (unasked bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.find(c)
	if own == nil {
		return false
	}
	p.remove(own)
	if to != http.StateClosed && to != http.StateHijacked {
		own.busy = to == http.StateActive
		p.all = append(p.all, own)
	}
	return to == http.StateClosed && own.node == "" && !own.refused
}

// find returns the place of a connection, or nil. As for the functions below, the caller has locked the places.
func (p *places) find(c net.Conn) *place {
	for _, o := range p.all {
		if o.conn == c {
			return o
		}
	}
	return nil
}

func (p *places) count(which func(*place) bool) int {
	n := 0
	for _, o := range p.all {
		if which(o) {
			n++
		}
	}
	return n
}

// closeFirst closes the first connection of some, and reports whether there was one.
func (p *places) closeFirst(which func(*place) bool) bool {
	for _, o := range p.all {
		if which(o) {
			p.remove(o)
			_ = o.conn.Close()
			return true
		}
	}
	return false
}

func (p *places) remove(o *place) {
	for i := range p.all {
		if p.all[i] == o {
			p.all = append(p.all[:i], p.all[i+1:]...)
			return
		}
	}
}
