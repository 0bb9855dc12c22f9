package cloud

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"cadre.dev/platform"
)

// call is one call on the wire, with the union of all arguments.
type call struct {
	VMUUID   string
	AppID    string
	Template platform.Template
	Create   platform.CreateRequest
	Update   platform.UpdateRequest
}

// answer is its outcome.
type answer struct {
	Instances   []platform.Instance
	Provisioned platform.Provisioned
	Accepted    platform.Accepted
	Error       string
	// NotFound and Refused are the kinds of the error.
	NotFound, Refused bool
}

// Serve answers Clients on listener until it closes.
func (c *Cloud) Serve(listener net.Listener) error {
	server := &http.Server{Handler: http.HandlerFunc(c.serve), ReadHeaderTimeout: time.Minute}
	return server.Serve(listener)
}

func (c *Cloud) serve(w http.ResponseWriter, r *http.Request) {
	var in call
	if err := json.NewDecoder(io.LimitReader(r.Body, 4<<20)).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var out answer
	one := func(i platform.Instance, err error) error {
		out.Instances = []platform.Instance{i}
		return err
	}
	var err error
	switch r.URL.Path {
	case "/list":
		out.Instances, err = c.List(r.Context(), in.AppID)
	case "/describe":
		err = one(c.Describe(r.Context(), in.VMUUID))
	case "/provision":
		out.Provisioned, err = c.Provision(r.Context(), in.VMUUID, in.Template)
	case "/create":
		err = one(c.Create(r.Context(), in.Create))
	case "/update":
		out.Accepted, err = c.Update(r.Context(), in.Update)
	case "/restart":
		out.Accepted, err = c.Restart(r.Context(), in.VMUUID)
	default:
		err = errNotHere
	}
	if err != nil {
		out.Error, out.NotFound, out.Refused = err.Error(), errors.Is(err, platform.ErrNotFound), errors.Is(err, platform.ErrRefused)
	}
	_ = json.NewEncoder(w).Encode(out)
}

// Client is a Cloud in another process. It returns the refusals of that Cloud.
type Client struct {
	*Cloud
	http *http.Client
}

// NewClient reaches the Cloud at a unix socket.
func NewClient(socket string) *Client {
	return &Client{Cloud: New(nil), http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
		MaxIdleConnsPerHost: 16,
	}}}
}

func (c *Client) ask(ctx context.Context, name string, in call) (out answer, err error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://cloud/"+name, bytes.NewReader(raw))
	if err != nil {
		return out, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return out, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return out, fmt.Errorf("platform: %s", resp.Status)
	}
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return out, err
	}
	switch {
	case out.NotFound:
		return out, fmt.Errorf("%w: %s", platform.ErrNotFound, out.Error)
	case out.Refused:
		return out, fmt.Errorf("%w: %s", platform.ErrRefused, out.Error)
	case out.Error != "":
		return out, errors.New(out.Error)
	}
	return out, nil
}

func first(out answer, err error) (platform.Instance, error) {
	if err != nil || len(out.Instances) != 1 {
		return platform.Instance{}, err
	}
	return out.Instances[0], nil
}

// List implements platform.Platform.
func (c *Client) List(ctx context.Context, appID string) ([]platform.Instance, error) {
	out, err := c.ask(ctx, "list", call{AppID: appID})
	return out.Instances, err
}

// Describe implements platform.Platform.
func (c *Client) Describe(ctx context.Context, vmUUID string) (platform.Instance, error) {
	return first(c.ask(ctx, "describe", call{VMUUID: vmUUID}))
}

// Provision implements platform.Platform.
func (c *Client) Provision(ctx context.Context, vmUUID string, t platform.Template) (platform.Provisioned, error) {
	out, err := c.ask(ctx, "provision", call{VMUUID: vmUUID, Template: t})
	return out.Provisioned, err
}

// Create implements platform.Platform.
func (c *Client) Create(ctx context.Context, req platform.CreateRequest) (platform.Instance, error) {
	return first(c.ask(ctx, "create", call{Create: req}))
}

// Update implements platform.Platform.
func (c *Client) Update(ctx context.Context, req platform.UpdateRequest) (platform.Accepted, error) {
	out, err := c.ask(ctx, "update", call{Update: req})
	return out.Accepted, err
}

// Restart implements platform.Platform.
func (c *Client) Restart(ctx context.Context, vmUUID string) (platform.Accepted, error) {
	out, err := c.ask(ctx, "restart", call{VMUUID: vmUUID})
	return out.Accepted, err
}

// ForceRestart implements platform.Platform.
func (c *Client) ForceRestart(ctx context.Context, vmUUID string) (platform.Accepted, error) {
	return c.Restart(ctx, vmUUID)
}

var _ platform.Platform = (*Client)(nil)
