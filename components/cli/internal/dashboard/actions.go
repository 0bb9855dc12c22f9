package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"cadre.dev/client"
	"cadre.dev/client/format"
)

// action is one change that an operator can make. Its requirements are those of the command.
type action struct {
	verb, title string
	// command is the same change on the command line.
	command string
	effect  string
	fields  []field
	// on is the kind of the object: "group", "slot", "operation", "request", "revision"; "" for a group or everything.
	on string
	// show asks the API for the effect before the operator confirms; nil: effect says it all.
	show func(ctx context.Context, s *Server, on string, in url.Values) (preview, error)
	do   func(ctx context.Context, s *Server, on string, in url.Values) (string, error)
}

// field is an input of an action.
type field struct {
	Name, Label, Hint string
	Required          bool
	// Choices, if any, are the only values.
	Choices []choice
}

// preview is the effect of an action that has not been made.
type preview struct {
	Text     string
	Warnings []string
	// Confirm must be typed before the action is made; "": nothing.
	Confirm string
	// Shown are the values that the operator saw. The action is refused when they have changed.
	Shown map[string]string
}

var (
	reasonField   = field{Name: "reason", Label: "Reason", Hint: "The records show it.", Required: true}
	reasonMaybe   = field{Name: "reason", Label: "Reason", Hint: "Optional. The records show it."}
	durationField = field{Name: "for", Label: "For how long", Hint: "For example 2h or 30m. Empty: until an operator ends it."}
)

// overrideAction sets an override.
func overrideAction(kind client.OverrideKind, on, title, command, effect string, fields ...field) action {
	return action{verb: string(kind), title: title, command: command, effect: effect, on: on, fields: fields,
		do: func(ctx context.Context, s *Server, on string, in url.Values) (string, error) {
			length, err := lengthOf(in)
			if err != nil {
				return "", err
			}
			var from []string
			if one := in.Get("from"); one != "" {
				from = []string{one}
			}
			o, err := s.Client.SetOverride(ctx, kind, on, length, in.Get("reason"), from...)
			if err != nil {
				return "", err
			}
			until := "until an operator ends it"
			if !o.Until.IsZero() {
				until = "until " + clock(o.Until)
			}
			return fmt.Sprintf("%s of %s is in effect %s", kind, everything(on), until), nil
		}}
}

func clearAction(kind client.OverrideKind, on, title, command, effect string) action {
	return action{verb: kind.Undo(), title: title, command: command, effect: effect, on: on,
		do: func(ctx context.Context, s *Server, on string, _ url.Values) (string, error) {
			changed, err := s.Client.ClearOverride(ctx, kind, on)
			switch {
			case err != nil:
				return "", err
			case !changed:
				return fmt.Sprintf("there was no %s of %s: nothing is changed", kind, everything(on)), nil
			}
			return fmt.Sprintf("the %s of %s has ended", kind, everything(on)), nil
		}}
}

func everything(name string) string {
	if name == "" {
		return "everything"
	}
	return name
}

// inputError is a wrong input of a form.
type inputError struct{ field, problem string }

func (e inputError) Error() string { return e.field + ": " + e.problem }

// lengthOf reads the field "for".
func lengthOf(in url.Values) (time.Duration, error) {
	text := strings.TrimSpace(in.Get("for"))
	if text == "" {
		return 0, nil
	}
	length, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, inputError{"for", fmt.Sprintf("%q is no duration: write it like 2h or 30m", clip(text))}
	case length <= 0:
		return 0, inputError{"for", fmt.Sprintf("%s: must be more than 0", clip(text))}
	}
	return length, nil
}

// actions are all actions, by their verb.
var actions = func() map[string]action {
	all := map[string]action{}
	for _, a := range []action{
		overrideAction(client.OverridePause, "group", "Pause the rollout of %s", "cadre rollout pause %s",
			"The leader finishes an instance that is being changed and returns an instance that only drains to service. Until the pause ends, "+
				"the leader updates and removes no instance automatically. Healing, new instances and requests by an instance's name continue.", durationField, reasonMaybe),
		clearAction(client.OverridePause, "group", "Resume the rollout of %s", "cadre rollout resume %s", "The rollout continues where the pause stopped it."),
		overrideAction(client.OverrideFreeze, "", "Freeze %s", "cadre freeze %s",
			"The leader begins no step: no rollout, no healing, no change of size and no request by an instance's name. It returns a step that has "+
				"made no platform call, and finishes every other step.", durationField, reasonField),
		clearAction(client.OverrideFreeze, "", "End the freeze of %s", "cadre unfreeze %s", "All work that waits begins by the usual rules. A group and everything have a freeze each."),
		overrideAction(client.OverrideDrain, "slot", "Drain %s", "cadre instance drain %s",
			"Once its group permits that, the instance transfers its leadership, runs its PRE_TERMINATE hooks and leaves service. It stays out of service and counts "+
				"as unavailable. Its CVM keeps running.", durationField, reasonField),
		clearAction(client.OverrideDrain, "slot", "Return %s to service", "cadre instance undrain %s", "The instance goes back into service, and is updated and healed like the others again."),
		overrideAction(client.OverrideProtect, "slot", "Protect %s", "cadre instance protect %s",
			"The leader begins no step that would disrupt the instance or cost its disk: no update, restart, replacement, drain or removal.", durationField, reasonField),
		clearAction(client.OverrideProtect, "slot", "End the protection of %s", "cadre instance unprotect %s", "Waiting steps of the instance begin by the usual rules."),
		overrideAction(client.OverrideExclude, "slot", "Exclude %s", "cadre instance exclude %s",
			"The rollout ends without the instance, or healing leaves it as it is. It stays in service and counts in every budget and quorum.",
			field{Name: "from", Label: "From", Choices: choices("", "", "rollouts and healing", "rollout", "rollouts", "healing", "healing")}, durationField, reasonField),
		clearAction(client.OverrideExclude, "slot", "Include %s again", "cadre instance include %s", "The instance is updated and healed like the others again, unless the spec excludes it."),
		clearAction(client.OverrideHold, "hold", "End the override of %s", "cadre rollout override %s --clear", "The hold holds the steps of the group again."),
		restartAction, retryAction, promoteAction, undoAction, approveAction, cancelAction,
		markAction("mark-succeeded", "done", "Mark the call of %s as succeeded", "The operation continues and waits for the new boot, as after a call that the platform confirmed."),
		markAction("mark-failed", "failed", "Mark the call of %s as failed", "The operation fails. The leader plans the step again while the group still needs it."),
	} {
		all[a.verb] = a
	}
	return all
}()

var restartAction = action{verb: "restart", on: "slot", title: "Restart %s", command: "cadre instance restart %s",
	effect: "The leader drains the instance and restarts its CVM on its disk, at its present revision, under its group's budget and quorum rules. " +
		"Until the rules permit it, the request waits and can be cancelled. With a service, the agent restarts only that service in its container.",
	fields: []field{{Name: "service", Label: "Service", Hint: "Optional. Restart only this service."}, reasonMaybe},
	do: func(ctx context.Context, s *Server, on string, in url.Values) (id string, err error) {
		what := on
		if service := strings.TrimSpace(in.Get("service")); service != "" {
			what = "service " + service + " of " + on
			id, err = s.Client.RestartService(ctx, on, service, in.Get("reason"))
		} else {
			id, err = s.Client.Restart(ctx, on, in.Get("reason"))
		}
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("the restart of %s is queued (%s)", what, format.ShortRequest(id)), nil
	}}

var retryAction = action{verb: "retry", on: "group", title: "Retry the rollout of %s", command: "cadre rollout retry %s",
	effect: "The failed rollout keeps its target revision, restarts its deadlines and repeats the failed steps. A step that the platform refused six times is repeated too.",
	fields: []field{reasonField},
	do: func(ctx context.Context, s *Server, on string, in url.Values) (string, error) {
		out, err := s.Client.Retry(ctx, on, in.Get("reason"))
		switch {
		case err != nil:
			return "", err
		case !out.Changed:
			return fmt.Sprintf("the rollout of %s has not failed (%s): nothing is changed", on, orDash(out.State)), nil
		}
		return fmt.Sprintf("rollout %s continues", out.Rollout), nil
	}}

var promoteAction = action{verb: "promote", on: "group", title: "Promote the stage of %s", command: "cadre rollout promote %s",
	effect: "The next stage of the rollout opens, and its slots are updated. A stage that still bakes is not promoted.",
	fields: []field{reasonMaybe},
	do: func(ctx context.Context, s *Server, on string, in url.Values) (string, error) {
		out, err := s.Client.Promote(ctx, on, in.Get("reason"))
		switch {
		case err != nil:
			return "", err
		case !out.Changed:
			return fmt.Sprintf("nothing of %s is promoted: %s", on, cmp.Or(out.Message, "no stage is open")), nil
		case out.Gates != "":
			return fmt.Sprintf("stage %d of %d is promoted; it still waits: %s", out.Stage, out.Stages, out.Gates), nil
		}
		return fmt.Sprintf("stage %d of %d is promoted", out.Stage, out.Stages), nil
	}}

var cancelAction = action{verb: "cancel", on: "request", title: "Cancel the request %s", command: "cadre operation cancel %s",
	effect: "The request leaves the queue. An operation that has begun continues: an interrupted step is less safe than a finished one.",
	do: func(ctx context.Context, s *Server, on string, _ url.Values) (string, error) {
		changed, err := s.Client.CancelRequest(ctx, on)
		switch {
		case err != nil:
			return "", err
		case !changed:
			return "", &client.Error{Kind: client.NotFound, Doing: "cancel request " + on, Message: "no waiting request has this id: nothing is changed"}
		}
		return fmt.Sprintf("request %s is cancelled", format.ShortRequest(on)), nil
	}}
