package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/fettle-io/fettle/sandbox/redfish"
)

// commander commands the power of one host, over a session that it has made before. It knows its work.
type commander struct {
	host   *bmcHost
	client *http.Client
	token  string
}

// floorOfCommands powers the hosts of the first rack off again, by a client that knows its work and does nothing else. The
// commands fall due in the groups of the first outage. They are made by the two requests of Fettle, over sessions that were
// made before.
func (m *metalRun) floorOfCommands(ctx context.Context) error {
	say("the power-offs again, by a client that does nothing else")
	m.fettle.Stop()
	nodes := m.rack(0, true)
	commanders := make([]*commander, len(nodes))
	for n, i := range nodes {
		commanders[n] = newCommander(m.hosts[i])
	}
	var err error
	m.result.Floor, err = m.commandAll(ctx, nodes, func(ctx context.Context, n int) error { return commanders[n].login(ctx) },
		func(ctx context.Context, n int) error { return commanders[n].powerOff(ctx) })
	return err
}

// commandAll powers hosts off in the groups of the first outage, after a login to each, and returns how long after they were due
// the BMCs received the commands.
func (m *metalRun) commandAll(ctx context.Context, nodes []int, login, powerOff func(context.Context, int) error) (bareRequests, error) {
	if err := inParallel(ctx, len(nodes), login); err != nil {
		return bareRequests{}, err
	}
	if err := m.servers.collectGarbage(ctx); err != nil {
		return bareRequests{}, err
	}
	order := make([]int, len(nodes))
	for n := range order {
		order[n] = n
	}
	pulse := m.kubelets.startHeartbeats(ctx, m.rack(m.rackOf(nodes[0]), false), m.Rate)
	groups := m.result.Outages[0].Deadlines
	began, lost := time.Now(), m.stolen()
	_, failed := sendInGroups(ctx, order, groups, time.Second, powerOff)
	if err := errors.Join(failed, pulse.stop()); err != nil {
		return bareRequests{}, err
	}
	late := make([]time.Duration, len(nodes))
	for n, due := range duesOf(began, groups, time.Second) {
		late[n] = m.hosts[nodes[n]].offSince(began)[0].Sub(due)
	}
	return bareRequests{distribution: distributionOf(late), Stolen: m.stolenSince(began, lost)}, nil
}

// duesOf returns when each call is due, in groups that are due some time apart.
func duesOf(first time.Time, groups []int, apart time.Duration) []time.Time {
	var dues []time.Time
	for n, size := range groups {
		for range size {
			dues = append(dues, first.Add(time.Duration(n)*apart))
		}
	}
	return dues
}

// newCommander returns a commander that trusts the one certificate of its BMC, as Fettle does.
func newCommander(h *bmcHost) *commander {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	config.InsecureSkipVerify = true // VerifyConnection compares the certificate in its place
	config.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 || !s.PeerCertificates[0].Equal(h.bmc.Certificate()) {
			return errors.New("the certificate is not that of the BMC")
		}
		return nil
	}
	return &commander{host: h, client: &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableCompression: true}}}
}

// login makes a session.
func (c *commander) login(ctx context.Context) error {
	answer, err := c.send(ctx, http.MethodPost, "/redfish/v1/SessionService/Sessions", map[string]string{"UserName": bmcUser, "Password": bmcPassword})
	if err != nil {
		return err
	}
	c.token = answer.Get("X-Auth-Token")
	return nil
}

// powerOff reads the system and commands its power off.
func (c *commander) powerOff(ctx context.Context) error {
	system := c.host.bmc.SystemPath()
	if _, err := c.send(ctx, http.MethodGet, system, nil); err != nil {
		return err
	}
	_, err := c.send(ctx, http.MethodPost, system+"/Actions/ComputerSystem.Reset", map[string]any{"ResetType": redfish.ResetForceOff})
	return err
}

func (c *commander) send(ctx context.Context, method, path string, body any) (http.Header, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encoding a request to a BMC: %w", err)
		}
		content = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.host.bmc.URL()+path, content)
	if err != nil {
		return nil, fmt.Errorf("preparing a request to a BMC: %w", err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		request.Header.Set("X-Auth-Token", c.token)
	}
	answer, err := c.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("sending a request to a BMC: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		return nil, fmt.Errorf("reading the answer of a BMC: %w", err)
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		return nil, fmt.Errorf("%s %s: the BMC answered %s", method, path, answer.Status)
	}
	return answer.Header, nil
}
