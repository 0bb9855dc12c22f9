package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"
)

// CVM is one CVM as its host sees it.
type CVM struct {
	Name       string `json:"name"`
	VMUUID     string `json:"vm_uuid"`
	InstanceID string `json:"instance_id"`
	Status     string `json:"status"`
	// Address is the CVM's own, behind its NAT.
	Address  string    `json:"address"`
	Boots    int       `json:"boots"`
	Services []Service `json:"services"`
}

// Service is one service of a CVM.
type Service struct {
	Name     string `json:"name"`
	State    string `json:"state"`
	Restarts int    `json:"restarts"`
	// StartedAt is when the service started last.
	StartedAt time.Time `json:"started_at"`
}

// Restarts of a service; -1 when there is no such service.
func (c CVM) Restarts(service string) int {
	for _, s := range c.Services {
		if s.Name == service {
			return s.Restarts
		}
	}
	return -1
}

// FirstStart is when the platform started the first service of the CVM's last boot.
func (c CVM) FirstStart() time.Time {
	var first time.Time
	for _, s := range c.Services {
		if first.IsZero() || s.StartedAt.Before(first) {
			first = s.StartedAt
		}
	}
	return first
}

// Call is one call of the platform's API that could change something.
type Call struct {
	Time   time.Time `json:"time"`
	Method string    `json:"method"`
	Path   string    `json:"path"`
	CVM    string    `json:"cvm"`
	// Executed is the API's own status, independent of the caller's; 0: not executed.
	Executed int `json:"executed"`
}

// UpdateAsked reports a call for an in-place update, from when it has arrived. On a host with dstack-vmm
// an update begins with the shutdown of the guest.
func (c Call) UpdateAsked() bool {
	return c.Method == http.MethodPatch && strings.HasSuffix(c.Path, "/compose_file") || strings.HasSuffix(c.Path, "/prpc/ShutdownVm")
}

// Update reports an in-place update that was accepted.
func (c Call) Update() bool { return c.UpdateAsked() && c.Executed >= 200 && c.Executed <= 299 }

// CVMs lists the local cloud's CVMs by name.
func (r *Rig) CVMs(ctx context.Context) (map[string]CVM, error) {
	var list []CVM
	if err := r.host(ctx, http.MethodGet, "/cvms", &list); err != nil {
		return nil, fmt.Errorf("list the CVMs: %w", err)
	}
	out := make(map[string]CVM, len(list))
	for _, c := range list {
		out[c.Name] = c
	}
	return out, nil
}

// Calls are the calls since the cloud came up, oldest first.
func (r *Rig) Calls(ctx context.Context) ([]Call, error) {
	var log struct {
		Calls []Call `json:"calls"`
	}
	if err := r.host(ctx, http.MethodGet, "/calls", &log); err != nil {
		return nil, fmt.Errorf("read the log of calls: %w", err)
	}
	return log.Calls, nil
}

// Flows counts the traffic between CVMs outside of the gateway and the rendezvous, by protocol.
type Flows struct {
	Protocols map[string]struct {
		Passed, Dropped struct{ Packets, Bytes int64 }
	} `json:"protocols"`
}

// CutCVMs drops everything that CVMs send to each other (true) or lets it pass, and
// returns the counts so far.
func (r *Rig) CutCVMs(ctx context.Context, cut bool) (Flows, error) {
	verdict := `{"cvm_to_cvm":"allow"}`
	if cut {
		verdict = `{"cvm_to_cvm":"drop"}`
	}
	var out Flows
	if err := r.hostBody(ctx, http.MethodPut, "/firewall", []byte(verdict), &out); err != nil {
		return out, fmt.Errorf("set the firewall: %w", err)
	}
	return out, nil
}

// SlowRegistry makes every CVM that boots wait for its images (true), or lets them come, and
// returns the CVMs that wait.
func (r *Rig) SlowRegistry(ctx context.Context, slow bool) ([]string, error) {
	var out struct {
		Waiting []string `json:"waiting"`
	}
	if err := r.hostBody(ctx, http.MethodPut, "/registry", fmt.Appendf(nil, `{"slow":%t}`, slow), &out); err != nil {
		return nil, fmt.Errorf("set the registry's speed: %w", err)
	}
	return out.Waiting, nil
}

// Evidence makes the guest agent of a CVM misbehave from its next boot on; faults is a JSON object of
// attestsim.Faults.
func (r *Rig) Evidence(ctx context.Context, cvm, faults string) error {
	if err := r.hostBody(ctx, http.MethodPost, "/cvms/"+cvm+"/evidence", []byte(faults), nil); err != nil {
		return fmt.Errorf("change the evidence of %s: %w", cvm, err)
	}
	return nil
}

// Fault runs one of cadre local fault's verbs.
func (r *Rig) Fault(ctx context.Context, args ...string) error {
	_, err := r.Cadre(ctx, append([]string{"local", "fault", "--state", filepath.Dir(r.CloudFile())}, args...)...)
	return err
}

// Start starts a CVM as the platform's API does. Where the other coordinators start the CVM at the same
// moment, the platform is busy with it for a while.
func (r *Rig) Start(ctx context.Context, cvm string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return again(ctx, func(ctx context.Context) error {
		_, err := r.Cadre(ctx, "local", "start", "--state", filepath.Dir(r.CloudFile()), cvm)
		return err
	})
}

// Halt stops the local cloud and leaves its state and logs.
func (r *Rig) Halt(ctx context.Context) error {
	r.hangUp()
	_, err := r.Cadre(ctx, "local", "down", "--state", filepath.Dir(r.CloudFile()))
	return err
}

// maxHostReply bounds an answer of the local cloud.
const maxHostReply = 32 << 20

// host asks the local cloud for data that no real platform has.
func (r *Rig) host(ctx context.Context, method, path string, into any) error {
	return r.hostBody(ctx, method, path, nil, into)
}

// hostBody is host with a body.
func (r *Rig) hostBody(ctx context.Context, method, path string, body []byte, into any) error {
	cloud, err := r.Cloud()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, cloud.LocalURL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("X-API-Key", cloud.APIKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxHostReply))
	if err != nil {
		return err
	}
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNoContent:
		return nil
	default:
		return fmt.Errorf("%s: %s", resp.Status, tail(string(text), 200))
	}
	return json.Unmarshal(text, into)
}
