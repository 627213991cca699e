package peer

import (
	"context"
	"net"
	"net/netip"
)

// SetDial has a client connect in another way than by TCP.
func (c *Client) SetDial(dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	c.raw = dial
}

// Bounds.
const (
	MaxFresh  = maxFresh
	MaxKnown  = maxKnown
	MaxOfNode = maxOfNode
	HelloTime = helloTime
	IdleTime  = idleTime
)

// Bounds of what is told.
const (
	TellEvery = tellEvery
	MaxTold   = maxTold
)

// StrangerAt returns the address that is told of a stranger.
func StrangerAt(c interface{ RemoteAddr() net.Addr }) netip.Addr { return stranger(c, "").from }

// MostAsking returns the bounds of questions at a time.
func MostAsking() (ofNode, all int) { return askingBound().ofNode, askingBound().all }

// Bounds of streams.
const (
	RelayRate = relayRate
	RelayIdle = relayIdle
	RelayTime = relayTime
)

// MostRelaying returns the bounds of streams at a time.
func MostRelaying() (ofNode, all int) { return relayBound().ofNode, relayBound().all }
