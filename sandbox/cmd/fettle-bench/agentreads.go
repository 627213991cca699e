package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// Times between two reads of an agent, on average.
const (
	reviews      = 10 * time.Minute
	surveys      = 6 * time.Hour
	lookUps      = time.Minute
	authorities  = 5 * time.Minute
	neighbours   = 90 * time.Minute
	pageOfLeases = 250
	firstLeases  = 16
)

// agentRead is one kind of reads by agents.
type agentRead struct {
	Name string `json:"name"`
	// Every is how often each agent reads so.
	Every time.Duration `json:"every"`
	Sent  int           `json:"sent"`
	// CPU is the processor time of the API server for one, and Bytes the length of its answers before compression.
	CPU   seconds `json:"cpu"`
	Bytes int     `json:"bytes"`

	paths []string
}

const (
	leasesOfAgents = "/apis/coordination.k8s.io/v1/namespaces/" + namespaceOfAgents + "/leases"
	fromMemory     = "?resourceVersion=0"
)

// agentReads are the reads of an agent. A path is read with all its pages if it has a limit.
func agentReads(during time.Duration) []agentRead {
	first := func(n int) string { return fmt.Sprintf("%s?limit=%d", leasesOfAgents, n) }
	few := []string{first(firstLeases)}
	for i := range 6 {
		few = append(few, fmt.Sprintf("%s/node-%05d%s", leasesOfAgents, i, fromMemory))
	}
	many := int(during.Seconds()) * 20
	return []agentRead{
		{Name: "one Lease, from memory (the floor)", Sent: many, paths: few[1:2]},
		{Name: "all Leases, as each agent once read them", Every: reviews, Sent: max(many/60, 5), paths: []string{first(pageOfLeases)}},
		{Name: "all Leases, as agents read them now", Every: surveys, paths: []string{first(pageOfLeases)}},
		{Name: "a few Leases, for the same purpose", Every: reviews, Sent: many / 4, paths: few},
		{Name: "policies and labels of the node", Every: lookUps, Sent: many, paths: []string{
			"/apis/fettle.io/v1alpha1/fencepolicies" + fromMemory, "/api/v1/nodes/" + witnessNode + fromMemory,
		}},
		{Name: "authorities", Every: authorities, Sent: many, paths: []string{"/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"}},
		{Name: "the page with neighbours", Every: neighbours, Sent: many / 10, paths: []string{first(pageOfLeases) + "&page=one"}},
	}
}

// measureReads reads in each way, one after the other, and notes what that has cost.
func measureReads(ctx context.Context, admin *rest.Config, server observed, idle seconds, all []agentRead) error {
	transport, err := rest.TransportFor(admin)
	if err != nil {
		return fmt.Errorf("connecting to the sandbox: %w", err)
	}
	client := &http.Client{Transport: transport}
	for i := range all {
		r := &all[i]
		if r.Sent == 0 { // as the one before it
			r.Sent, r.CPU, r.Bytes = all[i-1].Sent, all[i-1].CPU, all[i-1].Bytes
			continue
		}
		before, err := server.usage()
		if err != nil {
			return err
		}
		for range r.Sent {
			if r.Bytes, err = r.read(ctx, client, admin.Host); err != nil {
				return err
			}
		}
		after, err := server.usage()
		if err != nil {
			return err
		}
		cpu := float64(after.cpu-before.cpu) - float64(idle)*after.at.Sub(before.at).Seconds()
		r.CPU = seconds(cpu / float64(r.Sent))
	}
	return nil
}

// read reads once, and returns the length of the answers.
func (r *agentRead) read(ctx context.Context, client *http.Client, host string) (int, error) {
	length := 0
	for _, path := range r.paths {
		path, one := strings.CutSuffix(path, "&page=one")
		for next := ""; ; {
			text, err := get(ctx, client, host+path+next)
			if err != nil {
				return 0, err
			}
			length += len(text)
			var list struct {
				Metadata struct {
					Continue string `json:"continue"`
				} `json:"metadata"`
			}
			if err := json.Unmarshal(text, &list); err != nil {
				return 0, fmt.Errorf("decoding an answer: %w", err)
			}
			if list.Metadata.Continue == "" || one || !strings.Contains(path, fmt.Sprintf("limit=%d", pageOfLeases)) {
				break
			}
			next = "&continue=" + url.QueryEscape(list.Metadata.Continue)
		}
	}
	return length, nil
}

func get(ctx context.Context, client *http.Client, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("making a request: %w", err)
	}
	if strings.Contains(address, "/nodes/") {
		request.Header.Set("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reading as an agent does: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("reading as an agent does: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers with the code %d", address, response.StatusCode)
	}
	return text, nil
}

// readsTable renders what the reads of all agents cost in a second.
func readsTable(all []agentRead, nodes int) string {
	rows := [][]string{{"", "sent", "processor of one", "bytes", fmt.Sprintf("%d nodes: a second", nodes), "cores", "MB/s"}}
	for _, r := range all {
		row := []string{r.Name, fmt.Sprint(r.Sent), fmt.Sprintf("%.2f ms", time.Duration(r.CPU).Seconds()*1000), fmt.Sprint(r.Bytes), "", "", ""}
		if r.Every > 0 {
			rate := float64(nodes) / r.Every.Seconds()
			row[4], row[5], row[6] = fmt.Sprintf("%.2f", rate), fmt.Sprintf("%.2f", time.Duration(r.CPU).Seconds()*rate), fmt.Sprintf("%.2f", float64(r.Bytes)*rate/1e6)
		}
		rows = append(rows, row)
	}
	return aligned(rows)
}
