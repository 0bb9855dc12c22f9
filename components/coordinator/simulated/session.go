package simulated

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/admission"
	"cadre.dev/coordinator/internal/control"
	"cadre.dev/coordinator/internal/view"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// GetDesired and Report answer a Boot of slot on its control session, with the errors of a session.

// GetDesired returns the desired state of the Boot.
func (c *Coordinator) GetDesired(ctx context.Context, slot, boot string, req *controlv1.GetDesiredRequest) (*controlv1.GetDesiredResponse, error) {
	v, err := c.caller(ctx, slot, boot)
	if err != nil {
		return nil, err
	}
	if short := control.Unchanged(v, slot, req); short != nil {
		return &controlv1.GetDesiredResponse{Desired: short}, nil
	}
	spec, ok := v.Accepted[v.Admissions[slot].Value.Group]
	if !ok {
		return nil, status.Error(codes.Unavailable, ErrUnreadable.Error())
	}
	d, err := control.Desired(v, spec.Value, slot, boot)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &controlv1.GetDesiredResponse{Desired: d}, nil
}

// Report accepts the Boot's report.
func (c *Coordinator) Report(ctx context.Context, slot, boot string, req *controlv1.ReportRequest) (*controlv1.ReportResponse, error) {
	v, err := c.caller(ctx, slot, boot)
	if err != nil {
		return nil, err
	}
	out := &controlv1.ReportResponse{Term: v.Term, Heartbeats: true, DesiredVersion: control.Version(v, slot)}
	if beat := req.GetHeartbeat(); beat != nil {
		out.ReportWanted = c.reports.Beat(slot, boot, beat) == nil
	} else {
		c.reports.Put(slot, boot, req.GetReport())
	}
	return out, nil
}

// caller returns the View in which the Boot holds slot. A refusal is based on a fresh read of the
// records.
func (c *Coordinator) caller(ctx context.Context, slot, boot string) (*view.View, error) {
	v, _ := c.views.Latest()
	if v == nil {
		return nil, status.Error(codes.Unavailable, ErrUnreadable.Error())
	}
	if v.Admitted(slot, boot) {
		return v, nil
	}
	record, ok := v.Slots[slot]
	if !ok {
		return nil, status.Error(codes.Unavailable, "the records of the slot are not known here yet")
	}
	why, err := admission.Ended(ctx, c.cfg.Store, record.Value.Group, slot, boot)
	switch {
	case err != nil:
		return nil, status.Error(codes.Unavailable, err.Error())
	case why.Code == "":
		return nil, status.Error(codes.Unavailable, "the records of the slot are not known here yet")
	}
	return nil, status.Error(codes.FailedPrecondition, fmt.Sprintf("%s: %s", why.Code, why.Message))
}

// wake notifies the Boots of a Slot of a change.
func (c *Coordinator) wake(slot string) {
	v, _ := c.views.Latest()
	if c.cfg.Wake == nil || v == nil {
		return
	}
	c.cfg.Wake(slot, &controlv1.WakeRequest{Term: v.Term, DesiredVersion: control.Version(v, slot)})
}
