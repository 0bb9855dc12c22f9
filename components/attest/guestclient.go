package attest

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// Timeouts of one call. Quotes are made one at a time for the whole CVM, so a
// busy agent may need seconds.
const (
	guestTimeout   = 30 * time.Second
	guestMaxReply  = 10 << 20
	maxReportData  = 64
	guestKeySize   = 32
	guestIdleConns = 2
)

// guestSockets is where a container finds the agent's socket, in this order.
var guestSockets = []string{
	"/var/run/dstack.sock",
	"/run/dstack.sock",
	"/var/run/dstack/dstack.sock",
	"/run/dstack/dstack.sock",
}

// GuestClient talks to the guest agent over its unix socket. It is safe for
// concurrent use.
type GuestClient struct {
	// constant after NewGuestClient
	socket string
	http   *http.Client

	mu   sync.Mutex
	info *Info // guarded by mu; nil until the first Info
}

var _ Guest = (*GuestClient)(nil)

// GuestError is an answer of the agent that is not a result.
type GuestError struct {
	Method string
	// Status is the HTTP status; the agent uses 400 for every error of its own.
	Status  int
	Message string
}

func (e *GuestError) Error() string {
	return fmt.Sprintf("guest agent %s: status %d: %s", e.Method, e.Status, e.Message)
}

// NewGuestClient returns a client of the agent behind the unix socket. "" looks
// in the usual places at each connection, so the agent may start later.
func NewGuestClient(socket string) *GuestClient {
	c := &GuestClient{socket: socket}
	c.http = &http.Client{
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "unix", c.socketPath())
			},
			MaxIdleConns:       guestIdleConns,
			IdleConnTimeout:    time.Minute,
			DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// Close ends the idle connections. The client can still be used.
func (c *GuestClient) Close() { c.http.CloseIdleConnections() }

// GetQuote quotes reportData (up to 64 bytes, padded with zeros on the right).
// A quote that races with another container's EmitEvent may not match its log;
// asking again then helps.
func (c *GuestClient) GetQuote(ctx context.Context, reportData []byte) (Evidence, error) {
	if len(reportData) > maxReportData {
		return Evidence{}, fmt.Errorf("get quote: report data has %d bytes, the limit is %d", len(reportData), maxReportData)
	}
	info, err := c.Info(ctx)
	if err != nil {
		return Evidence{}, fmt.Errorf("get quote: %w", err)
	}
	var reply struct {
		Quote      string `json:"quote"`
		EventLog   string `json:"event_log"`
		ReportData string `json:"report_data"`
		VMConfig   string `json:"vm_config"`
	}
	request := map[string]string{"report_data": hex.EncodeToString(reportData)}
	if err := c.call(ctx, "GetQuote", request, &reply); err != nil {
		return Evidence{}, err
	}
	quote, err := hex.DecodeString(reply.Quote)
	if err != nil || len(quote) == 0 {
		return Evidence{}, errors.New("guest agent GetQuote: the quote is not hex")
	}
	var padded [maxReportData]byte
	copy(padded[:], reportData)
	if reply.ReportData != "" && reply.ReportData != hex.EncodeToString(padded[:]) {
		return Evidence{}, errors.New("guest agent GetQuote: the reply is for other report data")
	}
	return Evidence{Quote: quote, EventLog: reply.EventLog, AppCompose: info.AppCompose, VMConfig: reply.VMConfig}, nil
}

// GetKey returns the 32 bytes for path, the same on every instance of the app.
func (c *GuestClient) GetKey(ctx context.Context, path, purpose string) ([]byte, error) {
	var reply struct {
		Key string `json:"key"`
	}
	// No algorithm: agents before 0.5.6 do not know the field, and the bytes are
	// the same for all of them.
	if err := c.call(ctx, "GetKey", map[string]string{"path": path, "purpose": purpose}, &reply); err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(reply.Key)
	if err != nil || len(key) != guestKeySize {
		return nil, fmt.Errorf("guest agent GetKey: the key is not %d bytes of hex", guestKeySize)
	}
	return key, nil
}

// Info describes the CVM. The agent makes a quote for each Info, so the first
// answer is kept; nothing in it changes during a Boot.
func (c *GuestClient) Info(ctx context.Context) (Info, error) {
	c.mu.Lock()
	known := c.info
	c.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	var reply struct {
		AppID       string `json:"app_id"`
		InstanceID  string `json:"instance_id"`
		ComposeHash string `json:"compose_hash"`
		AppName     string `json:"app_name"`
		OSImageHash string `json:"os_image_hash"`
		TCBInfo     string `json:"tcb_info"`
	}
	if err := c.call(ctx, "Info", struct{}{}, &reply); err != nil {
		return Info{}, err
	}
	var tcb struct {
		AppCompose string `json:"app_compose"`
	}
	if err := json.Unmarshal([]byte(reply.TCBInfo), &tcb); err != nil {
		return Info{}, fmt.Errorf("guest agent Info: tcb_info: %w", err)
	}
	info := Info{
		AppID: reply.AppID, InstanceID: reply.InstanceID, ComposeHash: reply.ComposeHash,
		AppName: reply.AppName, OSImageHash: reply.OSImageHash, AppCompose: []byte(tcb.AppCompose),
	}
	c.mu.Lock()
	c.info = &info
	c.mu.Unlock()
	return info, nil
}

// Version is the agent's release. Agents before 0.5.7 do not know the call and
// answer a *GuestError.
func (c *GuestClient) Version(ctx context.Context) (string, error) {
	var reply struct {
		Version string `json:"version"`
	}
	err := c.call(ctx, "Version", struct{}{}, &reply)
	return reply.Version, err
}

// call posts one request. The reply of a call without result may be empty, null
// or {}.
func (c *GuestClient) call(ctx context.Context, method string, request, reply any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, guestTimeout, fmt.Errorf("guest agent %s: no answer in %s", method, guestTimeout))
	defer cancel()
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("guest agent %s: %w", method, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/"+method, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("guest agent %s: %w", method, err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Errorf("guest agent %s: %w", method, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, guestMaxReply+1))
	if err != nil {
		return fmt.Errorf("guest agent %s: read reply: %w", method, err)
	}
	if len(raw) > guestMaxReply {
		return fmt.Errorf("guest agent %s: the reply is longer than %d bytes", method, guestMaxReply)
	}
	if resp.StatusCode != http.StatusOK {
		return &GuestError{Method: method, Status: resp.StatusCode, Message: errorText(raw)}
	}
	if err := json.Unmarshal(raw, reply); err != nil {
		return fmt.Errorf("guest agent %s: decode reply: %w", method, err)
	}
	return nil
}

// errorText is the "error" of an agent's answer, or the start of what else it sent.
func errorText(raw []byte) string {
	const most = 512
	var body struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal(raw, &body); err == nil && body.Error != "" {
		raw = []byte(body.Error)
	}
	return string(raw[:min(len(raw), most)])
}

func (c *GuestClient) socketPath() string {
	if c.socket != "" {
		return c.socket
	}
	for _, path := range guestSockets {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return guestSockets[0]
}
