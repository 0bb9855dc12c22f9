package localcloud

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// API calls the daemon's /_local/ endpoints.
type API struct {
	base, key, at string
	http          *http.Client
}

// NewAPI makes an API for a running daemon.
func NewAPI(info Info) *API {
	base := info.LocalURL
	if base == "" {
		base = info.APIURL
		if u, err := url.Parse(info.APIURL); err == nil {
			base = u.Scheme + "://" + u.Host + "/_local"
		}
	}
	return &API{base: base, key: info.APIKey, at: info.at, http: &http.Client{Timeout: 2 * time.Minute}}
}

// CVM is one CVM as its host sees it.
type CVM struct {
	Name       string `json:"name"`
	VMUUID     string `json:"vm_uuid"`
	AppID      string `json:"app_id"`
	InstanceID string `json:"instance_id"`
	Status     string `json:"status"`
	// Host is the host of dstack-vmm; empty on Phala's platform.
	Host      string    `json:"host,omitempty"`
	Boots     int       `json:"boots"`
	BootError string    `json:"boot_error"`
	Address   string    `json:"address"`
	Logs      string    `json:"logs"`
	Services  []Service `json:"services"`
}

// Service is one service of a CVM's compose file.
type Service struct {
	Name     string `json:"name"`
	State    string `json:"state"`
	Health   string `json:"health"`
	Restarts int    `json:"restarts"`
	ExitCode *int   `json:"exit_code"`
}

// Fault is the cloud API's wrong behaviour for the next matching calls.
type Fault struct {
	ID      int               `json:"id,omitempty"`
	Match   string            `json:"match"`
	CVM     string            `json:"cvm,omitempty"`
	Host    string            `json:"host,omitempty"`
	Times   int               `json:"times,omitempty"`
	Effect  string            `json:"effect"`
	Status  int               `json:"status,omitempty"`
	Delay   string            `json:"delay,omitempty"`
	Body    string            `json:"body,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Hits    int               `json:"hits,omitempty"`
}

// Output is the output of a command in a CVM.
type Output struct {
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	Code   int    `json:"code"`
}

// Image is one image of the cloud's registry.
type Image struct {
	Name   string `json:"name"`
	Tag    string `json:"tag"`
	Digest string `json:"digest"`
}

// Images lists the images of the cloud's registry.
func (a *API) Images(ctx context.Context) ([]Image, error) {
	var out struct {
		Images []Image `json:"images"`
	}
	return out.Images, a.do(ctx, http.MethodGet, "/images", nil, &out)
}

// Ready asks whether the daemon answers.
func (a *API) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return a.do(ctx, http.MethodGet, "/settings", nil, nil)
}

// CVMs lists all CVMs.
func (a *API) CVMs(ctx context.Context) ([]CVM, error) {
	var out []CVM
	return out, a.do(ctx, http.MethodGet, "/cvms", nil, &out)
}

// CVM describes one.
func (a *API) CVM(ctx context.Context, name string) (CVM, error) {
	var out CVM
	return out, a.do(ctx, http.MethodGet, "/cvms/"+url.PathEscape(name), nil, &out)
}

// Faults lists the armed API faults.
func (a *API) Faults(ctx context.Context) ([]Fault, error) {
	var out []Fault
	return out, a.do(ctx, http.MethodGet, "/faults", nil, &out)
}

// AddFault arms one and returns it with its id.
func (a *API) AddFault(ctx context.Context, f Fault) (Fault, error) {
	var out Fault
	return out, a.do(ctx, http.MethodPost, "/faults", f, &out)
}

// ClearFaults disarms all.
func (a *API) ClearFaults(ctx context.Context) error {
	return a.do(ctx, http.MethodDelete, "/faults", nil, nil)
}

// Act does one of kill, pause, resume, isolate, rejoin, lose-disk to a CVM; body
// may be nil.
func (a *API) Act(ctx context.Context, cvm, action string, body any) error {
	return a.do(ctx, http.MethodPost, "/cvms/"+url.PathEscape(cvm)+"/"+action, body, nil)
}

// Exec runs a command in a CVM, in the namespaces of a service if one is named.
func (a *API) Exec(ctx context.Context, cvm, service string, command []string) (Output, error) {
	var out Output
	body := map[string]any{"command": command}
	if service != "" {
		body["service"] = service
	}
	return out, a.do(ctx, http.MethodPost, "/cvms/"+url.PathEscape(cvm)+"/exec", body, &out)
}

// Logs returns the last bytes of a service's log.
func (a *API) Logs(ctx context.Context, cvm, service string, tail int) (string, error) {
	var out string
	path := "/cvms/" + url.PathEscape(cvm) + "/logs/" + url.PathEscape(service)
	if tail > 0 {
		path += fmt.Sprintf("?tail=%d", tail)
	}
	return out, a.do(ctx, http.MethodGet, path, nil, &out)
}

const maxReply = 32 << 20

// StatusError is an answer that is not a success.
type StatusError struct {
	Status  int
	Message string
}

func (e *StatusError) Error() string { return e.Message }

// do makes one call. into may be a *string for plain text.
func (a *API) do(ctx context.Context, method, path string, body, into any) error {
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
		reader = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, reader)
	if err != nil {
		return fmt.Errorf("local cloud: %w", err)
	}
	req.Header.Set("X-API-Key", a.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.http.Do(req)
	if err != nil {
		return fmt.Errorf("the local cloud does not answer (is it up? `cadre local up%s`): %w", a.at, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	switch {
	case err != nil:
		return fmt.Errorf("local cloud: read the reply: %w", err)
	case len(text) > maxReply:
		return errors.New("local cloud: the reply is too large")
	case resp.StatusCode > 299:
		return &StatusError{resp.StatusCode, "local cloud: " + detail(text, resp.Status)}
	}
	switch out := into.(type) {
	case nil:
		return nil
	case *string:
		*out = string(text)
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("local cloud: read the reply: %w", err)
	}
	return nil
}

func detail(text []byte, status string) string {
	var w struct {
		Detail json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(text, &w) == nil && len(w.Detail) > 0 {
		var s string
		if json.Unmarshal(w.Detail, &s) == nil {
			return s
		}
		return string(w.Detail)
	}
	return strings.TrimSpace(status)
}

// ActOnHost does one of kill, return, restart-vmm, hang, refuse, up to a host of platform vmm; hang and
// refuse end after a time that is not 0.
func (a *API) ActOnHost(ctx context.Context, host, verb string, after time.Duration) error {
	path := "/hosts/" + url.PathEscape(host)
	switch verb {
	case "hang", "refuse", "up":
		return a.do(ctx, http.MethodPut, path, map[string]any{"endpoint": verb, "for": after.String()}, nil)
	default:
		return a.do(ctx, http.MethodPost, path+"/"+url.PathEscape(verb), nil, nil)
	}
}
