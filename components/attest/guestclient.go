package attest

import (
	"context"
	"fmt"
	"sync"

	"cadre.dev/attest/dstacksdk"
	"cadre.dev/core/strictjson"
)

// GuestClient talks to the guest agent over its unix socket. It is safe for
// concurrent use.
type GuestClient struct {
	agent *dstacksdk.Client // constant after NewGuestClient

	mu   sync.Mutex
	info *Info // guarded by mu; nil until the first Info
}

var _ Guest = (*GuestClient)(nil)

// GuestError is an answer of the agent that is not a result.
type GuestError = dstacksdk.Error

// NewGuestClient returns a client of the agent behind the unix socket. "" looks
// in the usual places at each connection, so the agent may start later.
func NewGuestClient(socket string) *GuestClient { return &GuestClient{agent: dstacksdk.New(socket)} }

// Close ends the idle connections. The client can still be used.
func (c *GuestClient) Close() { c.agent.Close() }

// GetQuote quotes reportData (up to 64 bytes, padded with zeros on the right).
// A quote that races with another container's EmitEvent may not match its log;
// asking again then helps.
func (c *GuestClient) GetQuote(ctx context.Context, reportData []byte) (Evidence, error) {
	info, err := c.Info(ctx)
	if err != nil {
		return Evidence{}, fmt.Errorf("get quote: %w", err)
	}
	reply, err := c.agent.Quote(ctx, reportData)
	if err != nil {
		return Evidence{}, err
	}
	return Evidence{Quote: reply.Quote, EventLog: reply.EventLog, AppCompose: info.AppCompose, VMConfig: reply.VMConfig}, nil
}

// GetKey returns the 32 bytes for path, the same on every instance of the app.
func (c *GuestClient) GetKey(ctx context.Context, path, purpose string) ([]byte, error) {
	key, err := c.agent.Key(ctx, path, purpose)
	return key.Key, err
}

// KeyService is the public key of the service that gave this CVM its keys; see
// dstacksdk.Client.KeyService.
func (c *GuestClient) KeyService(ctx context.Context) ([]byte, error) {
	return c.agent.KeyService(ctx)
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
	reply, err := c.agent.Info(ctx)
	if err != nil {
		return Info{}, err
	}
	var tcb struct {
		AppCompose string `json:"app_compose"`
	}
	if err := strictjson.UnmarshalOpen([]byte(reply.TCBInfo), &tcb); err != nil {
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
func (c *GuestClient) Version(ctx context.Context) (string, error) { return c.agent.Version(ctx) }
