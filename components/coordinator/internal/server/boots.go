package server

import (
	"context"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/operation"
	"cadre.dev/core/policy"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	"cadre.dev/store"
)

// maxBootText bounds each text of a BootAllowedRequest.
const maxBootText = 256

// BootAllowed implements BootService.
func (s *Server) BootAllowed(ctx context.Context, req *apiv1.BootAllowedRequest) (*apiv1.BootAllowedResponse, error) {
	for field, text := range map[string]string{
		"app_id": req.GetAppId(), "compose_hash": req.GetComposeHash(), "instance_id": req.GetInstanceId(),
		"os_image_hash": req.GetOsImageHash(), "device_id": req.GetDeviceId(),
	} {
		if len(text) > maxBootText {
			return nil, status.Errorf(codes.InvalidArgument, "%s: has %d bytes, at most %d are allowed", field, len(text), maxBootText)
		}
	}
	c, err := s.caller(ctx)
	if err != nil {
		return nil, err
	}
	boot := policy.Boot{
		AppID: plainHex(req.GetAppId()), InstanceID: plainHex(req.GetInstanceId()), ComposeHash: plainHex(req.GetComposeHash()),
		KeyProviderID: s.cfg.Images.KeyProviderID,
	}
	slots, err := c.bootSlots(ctx, boot.AppID)
	if err != nil {
		return nil, err
	}
	d := policy.MayBoot(slots, boot)
	if boot.AppID == s.cfg.AppID {
		d = policy.Decision{Code: policy.CodeSlotUnknown, Message: "it is the app of the coordinators, which the static file of kms-auth answers: see `cadre kms-auth init`"}
	}
	out := &apiv1.BootAllowedResponse{Allowed: d.Allowed, Code: string(d.Code), Message: d.Message, Revision: d.Revision}
	if d.Allowed {
		out.Group = slots[0].Policy.Group
	}
	s.cfg.Log.Info("key service asks about a boot", "allowed", d.Allowed, "code", d.Code, "reason", d.Message, "app", boot.AppID, "instance", boot.InstanceID,
		"compose_hash", boot.ComposeHash, "os_image_hash", req.GetOsImageHash(), "device", req.GetDeviceId())
	return out, nil
}

// plainHex is the spelling of ids in records.
func plainHex(id string) string { return strings.TrimPrefix(strings.ToLower(id), "0x") }

// bootSlots reads the Slots of an app at this moment, under the policies of their groups. The caller
// has the right to read each of those groups. The latest View only finds the groups; all records are
// read if it knows none, because a new Slot's policy may be younger than it.
//
// As at admission, the revocations and the accepted floor count in addition to the Slot's own record,
// and no approval that the leader did not write there. Both differ while a restored cluster is halted.
// Then no CVM is made either, so that an open Operation of the backup lets no other instance in.
func (c *caller) bootSlots(ctx context.Context, app string) ([]policy.BootSlot, error) {
	latest, _ := c.server.cfg.Views.Latest()
	groups := groupsOfApp(latest, app)
	if len(groups) == 0 {
		if err := c.load(ctx); err != nil {
			return nil, err
		}
		groups = groupsOfApp(c.view, app)
	}
	if len(groups) == 0 {
		return nil, nil
	}
	state, _, err := store.ReadStateFacts(ctx, c.server.cfg.Store)
	if err != nil {
		return nil, wire(err)
	}
	halted := state.Regressed() != nil // by a restore
	var out []policy.BootSlot
	for _, name := range groups {
		if err := c.mayAsk(ctx, name); err != nil {
			return nil, err
		}
		v, err := view.ReadGroup(ctx, c.server.cfg.Store, name, latest, nil)
		if err != nil {
			return nil, wire(err)
		}
		for _, slot := range slices.Sorted(maps.Keys(v.Policies)) {
			sp := v.Policies[slot].Value
			if sp.Group != name || sp.AppID != app {
				continue
			}
			sp = sp.Revoking(v.Gate.Revocations).AtLeast(v.Gate.Groups[name].Value)
			op, open := v.OpenOperation(slot)
			out = append(out, policy.BootSlot{Policy: sp, Making: open && !halted && (op.Value.Kind == operation.Create || op.Value.Kind == operation.Replace)})
		}
	}
	return out, nil
}

// groupsOfApp are the groups with a Slot of the app, sorted.
func groupsOfApp(v *view.View, app string) []string {
	found := map[string]bool{}
	for _, p := range v.Policies {
		if app != "" && p.Value.AppID == app {
			found[p.Value.Group] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
