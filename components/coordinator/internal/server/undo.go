package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/rollout"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// ProposeUndo implements ControlService.
func (s *Server) ProposeUndo(ctx context.Context, req *apiv1.ProposeUndoRequest) (*apiv1.ProposeUndoResponse, error) {
	c, err := s.callerFor(ctx, req.GetGroup(), "")
	if err != nil {
		return nil, err
	}
	stored := c.view.Specs[req.GetGroup()]
	// The spec is decoded as written: omitted fields stay omitted.
	spec, err := group.Decode(stored.Raw)
	if err == nil {
		err = stored.Err
	}
	if err != nil {
		return nil, status.Errorf(codes.FailedPrecondition, "the stored spec of %s is not valid, so there is nothing to undo: apply a corrected one (%v)", req.GetGroup(), err)
	}
	out := &apiv1.ProposeUndoResponse{SpecIndex: stored.Index, FromRevision: spec.Revision()}
	if out.ToRevision, err = c.undoTo(req.GetGroup(), req.GetRevision(), out.GetFromRevision()); err != nil {
		return nil, err
	}
	record, ok := c.view.Revisions[out.GetToRevision()]
	if !ok {
		return nil, status.Errorf(codes.FailedPrecondition, "the content of revision %s is not recorded any more: apply the file that it came from", out.GetToRevision())
	}
	back, err := spec.Back(record.Value)
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error()+": apply the file that it came from")
	}
	if d := c.view.Gate.Groups[spec.Name].Value.Judge(out.GetToRevision(), group.Content(back.Template), record.Value.ComposeHash); !d.Allowed {
		out.Warnings = append(out.Warnings, fmt.Sprintf("it is not rolled out: %s: %s", d.Code, d.Message))
	}
	out.SpecJson, err = json.Marshal(back)
	return out, err
}

// undoTo returns the Revision to go back to: the typed one, or the previous one.
func (c *caller) undoTo(name, typed, from string) (string, error) {
	if typed != "" {
		one, err := findRevision(c.view, typed, name)
		if err == nil && one.revision == from {
			return "", status.Errorf(codes.FailedPrecondition, "revision: %s is already the target of group %s", one.revision, name)
		}
		return one.revision, err
	}
	var history []operation.Rollout
	for _, r := range c.view.RolloutsOf(name) {
		history = append(history, r.Value)
	}
	st := c.view.Statuses[name].Value
	to := rollout.Before(from, st.Stable, st.FailedRevisions, history)
	unproven := st.Stable != "" && st.Stable != from && !rollout.Arrived(from, history) // the way back from it is clear
	if left := rollout.WentBackFrom(from, history); left != "" && !unproven {
		choices := fmt.Sprintf("--to %s goes there again", left)
		if to != "" {
			choices += fmt.Sprintf(", --to %s further back", to)
		}
		return "", status.Errorf(codes.FailedPrecondition, "group %s went back to %s from %s, which had not arrived, so that two things may be meant: %s", name, from, left, choices)
	}
	if to == "" {
		return "", status.Errorf(codes.FailedPrecondition, "group %s has no revision before %s that got to its end: name one with --to, or apply an earlier file", name, from)
	}
	if rollout.OfPart(to, st.Stable, c.ranBefore(name, from), history) {
		choices := fmt.Sprintf("--to %s goes there all the same", to)
		others := slices.DeleteFunc(history, func(r operation.Rollout) bool { return r.To == to })
		if further := rollout.Before(from, st.Stable, st.FailedRevisions, others); further != "" {
			choices += fmt.Sprintf(", --to %s further back", further)
		}
		return "", status.Errorf(codes.FailedPrecondition, "revision %s, the one before, got to its end on a part of group %s alone, and most slots that would go back did not run it, so that two things may be meant: %s", to, name, choices)
	}
	return to, nil
}

// ranBefore returns the Revision that each Slot of the rollout ran before the target, "" where it
// is unknown.
func (c *caller) ranBefore(name, target string) (ran []string) {
	spec := c.view.Specs[name].Value
	for _, i := range c.view.Statuses[name].Value.Instances {
		if i.Extra || spec.KeptBy(i.Ordinal, c.view.ExcludedFrom(i.Slot, c.now())) != "" {
			continue
		}
		one := i.Observed
		if one == target {
			one = ""
		}
		for _, op := range c.view.OperationsOf(i.Slot) {
			if one == "" && op.Value.To == target && op.Value.From != target {
				one = op.Value.From
			}
		}
		ran = append(ran, one)
	}
	return ran
}
