package dashboard

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"cadre.dev/cli/internal/diff"
	"cadre.dev/cli/internal/render"
	"cadre.dev/client"
	"cadre.dev/client/format"
)

// The actions of this file ask the API for their effect first. The operator confirms exactly that effect.

var undoAction = action{verb: "undo", on: "group", title: "Undo the rollout of %s", command: "cadre rollout undo %s",
	effect: "The template, hooks, checks and driver settings of an earlier revision go into the group's spec; size, budgets and routes stay. " +
		"The leader rolls the new spec out like any other one. Change the group's file too: its next apply otherwise brings the later revision back.",
	show: showUndo, do: doUndo}

func showUndo(ctx context.Context, s *Server, on string, in url.Values) (preview, error) {
	undo, err := s.Client.ProposeUndo(ctx, on, in.Get("to"))
	if err != nil {
		return preview{}, err
	}
	checked, err := s.Client.ApplyGroupWith(ctx, undo.Spec, client.ApplyOptions{ExpectedIndex: undo.Index, DryRun: true})
	if err != nil {
		return preview{}, err
	}
	stored, err := s.Client.Group(ctx, on)
	if err != nil {
		return preview{}, err
	}
	before, after := stored.Spec, undo.Spec
	before.Normalize()
	after.Normalize()
	changes, err := diff.Compare(before, after)
	if err != nil {
		return preview{}, err
	}
	text := fmt.Sprintf("back from revision %s to %s\n%s", format.Short(undo.From), format.Short(undo.To), render.Diff(render.Style{}, changes))
	text += render.Leaving(render.Style{}, checked.HeldDisks, false, false)
	// A plan needs a leader with a view; an undo does not.
	if p, err := s.Client.Plan(ctx, on, &undo.Spec); err == nil {
		p.Warnings = nil
		text += "\n" + render.Plan(render.Style{}, p, s.Now())
	} else {
		text += "\nno plan now: " + err.Error() + "\n"
	}
	return preview{Text: text, Warnings: append(undo.Warnings, checked.Warnings...), Confirm: on,
		Shown: map[string]string{"index": strconv.FormatUint(undo.Index, 10), "revision": undo.To}}, nil
}

func doUndo(ctx context.Context, s *Server, on string, in url.Values) (string, error) {
	undo, err := s.Client.ProposeUndo(ctx, on, in.Get("to"))
	if err != nil {
		return "", err
	}
	done, err := s.Client.ApplyGroupWith(ctx, undo.Spec, client.ApplyOptions{ExpectedIndex: undo.Index, Verb: "undo"})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("group %s goes back to revision %s, index %d, request %s", on, format.Short(undo.To), done.Index, format.ShortRequest(done.RequestID)), nil
}

var approveAction = action{verb: "approve", on: "revision", title: "Approve revision %s", command: "cadre admission approve %s",
	effect: "Boots of this revision with the compose hash below may be admitted, and the rollout continues automatically. " +
		"The revision with another hash needs another approval.",
	fields: []field{{Name: "note", Label: "Note", Hint: "Optional. The reviewed content, for the record."}},
	show: func(ctx context.Context, s *Server, on string, in url.Values) (preview, error) {
		doc, err := s.Client.AppCompose(ctx, on, in.Get("group"))
		if err != nil {
			return preview{}, err
		}
		return preview{Text: fmt.Sprintf("group         %s\nrevision      %s\ncompose hash  %s\n\n%s\n", doc.Group, doc.Revision, doc.ComposeHash, doc.Text),
			Shown: map[string]string{"compose_hash": doc.ComposeHash}}, nil
	},
	do: func(ctx context.Context, s *Server, on string, in url.Values) (string, error) {
		done, err := s.Client.Approve(ctx, on, in.Get("group"), in.Get("note"), false)
		if err != nil {
			return "", err
		}
		text := fmt.Sprintf("revision %s of group %s is approved as compose hash %s", numbered(done.Revision, done.Number), done.Group, done.ComposeHash)
		if !done.Changed {
			text = fmt.Sprintf("revision %s of group %s was approved already: nothing is changed", numbered(done.Revision, done.Number), done.Group)
		}
		return strings.Join(append([]string{text}, done.Warnings...), "; "), nil
	}}

// markAction records the effect of an undecided platform call.
func markAction(verb, as, title, means string) action {
	return action{verb: verb, on: "operation", title: title, command: "cadre operation " + verb + " %s",
		effect: means + " Look at the CVM on the platform first.",
		fields: []field{{Name: "reason", Label: "Reason", Hint: "Your observation, for the record.", Required: true}},
		show: func(ctx context.Context, s *Server, on string, in url.Values) (preview, error) {
			// The API wants a reason for the question too.
			reason := strings.TrimSpace(in.Get("reason"))
			if reason == "" {
				reason = "asked for the effect only"
			}
			out, err := s.Client.Resolve(ctx, on, as, reason, true)
			if err != nil {
				return preview{}, err
			}
			return preview{Text: render.Resolved(render.Style{}, out), Confirm: out.Operation.Slot, Shown: map[string]string{"phase": string(out.Operation.Phase)}}, nil
		},
		do: func(ctx context.Context, s *Server, on string, in url.Values) (string, error) {
			out, err := s.Client.Resolve(ctx, on, as, in.Get("reason"), false)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("the call of %s is taken for %s within moments", out.Operation.ID, as), nil
		}}
}
