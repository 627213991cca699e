package power

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/fettle-io/fettle/internal/fencing"
)

// redfish drives one system by Redfish. It has one session, which all operations share.
type redfish struct {
	address     Address
	credentials Credentials
	http        *http.Client
	// service is the service with a session or with the credentials for each request, or nil before the login.
	service *gofish.APIClient
	// system is the path of the system, or empty until it was found.
	system string
	// uuid is the UUID of the system as it was read last, and expected that which commands require, or empty.
	uuid, expected string
}

// openRedfish returns the driver of a system. It makes no connection yet.
func openRedfish(config Config, credentials Credentials) connection {
	return &redfish{
		address: config.Address, credentials: credentials, http: newClient(config.Address, config.Trust), system: config.Address.System,
	}
}

// State reads the power. Only On and Off count: a BMC says PoweringOff while the host still runs.
func (r *redfish) State(ctx context.Context) (fencing.PowerState, Failure) {
	var state fencing.PowerState
	failure := r.use(ctx, func(service *gofish.APIClient) (f Failure) {
		state, f = r.state(service)
		return f
	})
	return state, failure
}

// state reads the power within a session.
func (r *redfish) state(service *gofish.APIClient) (fencing.PowerState, Failure) {
	system, failure := r.find(service)
	if failure.Failed() {
		return fencing.PowerUnknown, failure
	}
	return literalState(system.PowerState), Failure{}
}

// literalState returns a state of the power.
func literalState(state schemas.PowerState) fencing.PowerState {
	if state == schemas.OnPowerState {
		return fencing.IsOn
	}
	if state == schemas.OffPowerState {
		return fencing.IsOff
	}
	return fencing.PowerUnknown
}

// Off turns the power off at once.
func (r *redfish) Off(ctx context.Context) Failure {
	return r.reset(ctx, schemas.ForceOffResetType, TurnOff.wanted())
}

// On turns the power on.
func (r *redfish) On(ctx context.Context) Failure {
	return r.reset(ctx, schemas.OnResetType, TurnOn.wanted())
}

// reset sends a command.
func (r *redfish) reset(ctx context.Context, kind schemas.ResetType, wanted fencing.PowerState) Failure {
	return r.use(ctx, func(service *gofish.APIClient) Failure {
		system, failure := r.find(service)
		if failure.Failed() {
			return failure
		}
		if DifferentSystems(r.uuid, r.expected) {
			return Failure{Reason: OtherSystem}
		}
		if forbid(ownResets(system), kind) {
			return Failure{Reason: ResetNotAllowed}
		}
		if _, err := system.Reset(kind); err != nil {
			return r.refused(service, redfishFailure(err), wanted)
		}
		return Failure{}
	})
}

// refused returns the outcome of a refused command. BMCs refuse a command without effect, so the state decides.
func (r *redfish) refused(service *gofish.APIClient, failure Failure, wanted fencing.PowerState) Failure {
	if failure.Reason != CommandRefused {
		return failure
	}
	if state, _ := r.state(service); state != wanted { // a state that can't be read is unknown
		return failure
	}
	return Failure{}
}

// find reads the system.
func (r *redfish) find(service *gofish.APIClient) (*schemas.ComputerSystem, Failure) {
	if r.system == "" {
		only, failure := r.onlySystem(service)
		if failure.Failed() {
			return nil, failure
		}
		r.system = only
	}
	system, err := schemas.GetComputerSystem(service, r.system)
	if err != nil {
		return nil, r.readFailure(err)
	}
	r.uuid = CanonicalUUID(system.UUID)
	return system, Failure{}
}

// Expect has commands fail if the UUID of the system is known, and is of another one.
func (r *redfish) Expect(uuid string) { r.expected = uuid }

// UUID returns the UUID of the system as it was read last.
func (r *redfish) UUID() string { return r.uuid }

// onlySystem returns the path of the system of a BMC that has only one.
func (r *redfish) onlySystem(service *gofish.APIClient) (string, Failure) {
	response, err := service.Get(strings.TrimSuffix(systemsPath, "/"))
	if err != nil {
		return "", r.readFailure(err)
	}
	defer response.Body.Close()
	var systems struct {
		Members []struct {
			ID string `json:"@odata.id"`
		} `json:"Members"`
	}
	if json.NewDecoder(response.Body).Decode(&systems) != nil {
		return "", Failure{Reason: UnexpectedAnswer}
	}
	if len(systems.Members) != 1 || !isSystem(systems.Members[0].ID) {
		return "", Failure{Reason: UnsupportedSystem}
	}
	return systems.Members[0].ID, Failure{}
}

// readFailure returns the failure of a read. Where each request has the credentials, a read is a login.
func (r *redfish) readFailure(err error) Failure {
	if !r.usesBasic() {
		return redfishFailure(err)
	}
	failure := loginFailure(err)
	if failure.HTTPStatus == http.StatusServiceUnavailable {
		failure.Reason = NoSessionLeft
	}
	return failure
}

// use makes an operation within a session. It logs in again once if the BMC has ended the session meanwhile.
func (r *redfish) use(ctx context.Context, call func(*gofish.APIClient) Failure) Failure {
	if r.service != nil {
		basic := r.usesBasic()
		failure := call(r.service.WithContext(ctx))
		if basic && failure.Failed() {
			r.service = nil
		}
		if basic || failure.Reason != AuthenticationRefused {
			return failure
		}
		r.service = nil
	}
	if failure := r.login(ctx); failure.Failed() {
		return failure
	}
	failure := call(r.service.WithContext(ctx))
	if failure.Reason == AuthenticationRefused || failure.Failed() && r.usesBasic() {
		r.logout(ctx)
	}
	return failure
}

// usesBasic reports whether each request has the credentials, so that a refusal is one of them.
func (r *redfish) usesBasic() bool {
	_, err := r.service.GetSession()
	return err != nil
}

// login makes a session. Where the BMC has none left or makes none, each request has the credentials.
func (r *redfish) login(ctx context.Context) Failure {
	service, err := gofish.ConnectContext(ctx, r.config(false))
	if err == nil && hasToken(service) {
		r.service = service
		return Failure{}
	}
	if err != nil && !withoutSession(err) {
		return loginFailure(err)
	}
	basic, err := gofish.ConnectContext(ctx, r.config(true))
	if err != nil {
		return loginFailure(err)
	}
	r.service = basic
	return Failure{}
}

// hasToken reports whether a login has made a session.
func hasToken(service *gofish.APIClient) bool {
	session, err := service.GetSession()
	return err == nil && session.Token != ""
}

// loginFailure returns the failure of a login. A BMC that forbids it has refused the credentials.
func loginFailure(err error) Failure {
	failure := redfishFailure(err)
	if failure.Reason == PermissionDenied {
		failure.Reason = AuthenticationRefused
	}
	return failure
}

// config returns how the service is connected to.
func (r *redfish) config(basic bool) gofish.ClientConfig {
	username, password := r.credentials.values()
	return gofish.ClientConfig{
		Endpoint: r.address.httpScheme() + "://" + r.address.HostPort(),
		Username: username, Password: password, BasicAuth: basic,
		HTTPClient: r.http, NoModifyTransport: true, ReuseConnections: true,
	}
}

// Close ends the session on the BMC.
func (r *redfish) Close(ctx context.Context) {
	r.logout(ctx)
	r.http.CloseIdleConnections()
}

// logout ends the session, if there is one. Without a session nothing is sent.
func (r *redfish) logout(ctx context.Context) {
	if r.service != nil {
		r.service.WithContext(ctx).Logout()
	}
	r.service = nil
}
