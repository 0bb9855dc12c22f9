package client

import (
	"context"

	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// Boot is a boot that asks a key service for its keys. All fields are hex.
type Boot struct {
	AppID, ComposeHash, InstanceID string
	// OSImageHash and DeviceID are for the coordinators' log.
	OSImageHash, DeviceID string
}

// BootDecision is the coordinators' answer about a Boot. The zero value denies.
type BootDecision struct {
	Allowed bool
	// Code and Message explain a denial.
	Code, Message string
	// Group and Revision are those of an allowed Boot.
	Group, Revision string
}

// BootAllowed asks whether the boot of a member may get its keys now. An error is no decision.
func (c *Client) BootAllowed(ctx context.Context, b Boot) (BootDecision, error) {
	ctx, cancel := c.bound(ctx)
	defer cancel()
	r, err := apiv1.NewBootServiceClient(c.conn).BootAllowed(ctx, &apiv1.BootAllowedRequest{
		AppId: b.AppID, ComposeHash: b.ComposeHash, InstanceId: b.InstanceID, OsImageHash: b.OSImageHash, DeviceId: b.DeviceID,
	})
	if err != nil {
		return BootDecision{}, c.wrap("ask about a boot", err)
	}
	return BootDecision{Allowed: r.GetAllowed(), Code: r.GetCode(), Message: r.GetMessage(), Group: r.GetGroup(), Revision: r.GetRevision()}, nil
}
