package ipmi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/bougou/go-ipmi/pkg/bmc"
	"github.com/bougou/go-ipmi/pkg/hal"
	"github.com/bougou/go-ipmi/pkg/hal/mock"
	"github.com/bougou/go-ipmi/pkg/server"
	"github.com/bougou/go-ipmi/pkg/transport"
	"github.com/bougou/go-ipmi/pkg/transport/udp"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/fettle-io/fettle/sandbox/redfish"
)

const (
	userID     = 2 // the user 1 has no name
	lanChannel = 1
)

// Config says what a BMC is. All fields are required.
type Config struct {
	User, Password string
	Host           redfish.Host
}

// Faults are what a BMC does wrong. The zero value is a BMC without fault.
type Faults struct {
	// RefusesSameState has it refuse to turn a host off that is off, and on that is on, with the completion code 0xD5.
	RefusesSameState bool
	// IgnoresCommands has it acknowledge commands and do nothing, and SaysOff has it say that the host is off.
	IgnoresCommands, SaysOff bool
	// Hangs has it answer no request.
	Hangs bool
}

// faultsOf returns the faults that were ordered last.
func faultsOf(ordered *atomic.Value) Faults {
	faults, _ := ordered.Load().(Faults)
	return faults
}

// line is the network of a BMC, which sends nothing while the BMC hangs.
type line struct {
	transport.PacketConn
	faults *atomic.Value
}

// WriteTo sends an answer.
func (l line) WriteTo(data []byte, to net.Addr) (int, error) {
	if faultsOf(l.faults).Hangs {
		return len(data), nil
	}
	return l.PacketConn.WriteTo(data, to)
}

// BMC is one emulated BMC. Its methods are safe for concurrent use.
type BMC struct {
	faults *atomic.Value // of Faults
	server *server.Server
	socket *net.UDPConn
	served chan struct{}
}

// Start starts a BMC on any free port of 127.0.0.1. The caller closes it.
func Start(config Config) (*BMC, error) {
	if config.User == "" || config.Password == "" || config.Host == nil {
		return nil, errors.New("a BMC needs a user, a password and a host")
	}
	faults := &atomic.Value{}
	faults.Store(Faults{})
	device := bmc.New(bmc.DeviceInfo{DeviceID: 1, IPMIVersion: 0x20}, [16]byte{1}, hardware{mock.New(), chassis{&mock.Chassis{}, config.Host, faults}})
	account, err := device.Users.Add(userID, config.User)
	if err != nil {
		return nil, fmt.Errorf("adding the user: %w", err)
	}
	account.SetPassword([]byte(config.Password))
	account.Enabled = true
	account.ChannelAccess[lanChannel] = bmc.UserChannelAccess{MaxPrivilege: bmc.PrivilegeLevelOperator, Enabled: true}
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	b := &BMC{faults: faults, socket: socket, served: make(chan struct{})}
	b.server = server.NewServer(device, line{udp.Wrap(socket), faults}, server.WithV15Disabled(),
		server.WithCipherSuites([]types.CipherSuiteID{types.CipherSuiteID3, types.CipherSuiteID17}))
	go func() {
		defer close(b.served)
		_ = b.server.Serve(context.Background()) // it returns when the BMC is closed
	}()
	return b, nil
}

// Order replaces the faults, for later commands.
func (b *BMC) Order(faults Faults) { b.faults.Store(faults) }

// Close ends the BMC. It may be called once.
func (b *BMC) Close() error {
	if err := b.server.Close(); err != nil {
		return fmt.Errorf("closing the BMC: %w", err)
	}
	<-b.served
	return nil
}

// Address returns the host and port on which the BMC listens.
func (b *BMC) Address() string { return b.socket.LocalAddr().String() }

// hardware is that of go-ipmi's tests, with another chassis.
type hardware struct {
	*mock.HAL
	chassis chassis
}

// Chassis returns the host.
func (h hardware) Chassis() hal.ChassisHAL { return h.chassis }

// chassis is a host.
type chassis struct {
	*mock.Chassis
	host   redfish.Host
	faults *atomic.Value
}

// PowerState reports whether the host is on.
func (c chassis) PowerState(context.Context) (bool, error) {
	return c.host.State() != redfish.Off && !faultsOf(c.faults).SaysOff, nil
}

// SetPower turns the host on or off.
func (c chassis) SetPower(_ context.Context, on bool) error {
	switch faults := faultsOf(c.faults); {
	case faults.RefusesSameState && on == (c.host.State() != redfish.Off):
		return types.CodeNotSupported // 0xD5
	case faults.IgnoresCommands:
		return nil
	case on:
		return c.host.PowerOn()
	}
	return c.host.PowerOff()
}

// PowerCycle turns the host off and on, unless it is off.
func (c chassis) PowerCycle(context.Context) error {
	if c.host.State() == redfish.Off {
		return nil
	}
	return errors.Join(c.host.PowerOff(), c.host.PowerOn())
}

// ColdReset is a power cycle, since the host boots anew after both.
func (c chassis) ColdReset(ctx context.Context) error { return c.PowerCycle(ctx) }
