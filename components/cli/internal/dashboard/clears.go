package dashboard

import "strings"

// clears has the remedy of each hold, in the words of docs/evidence/rollout-rules.md; a test compares both.
var clears = map[string]string{
	"not_approved":            "`cadre admission approve REVISION`",
	"below_floor":             "Use a newer Revision: a floor never falls.",
	"revoked":                 "Use another Revision, or `cadre admission unrevoke`.",
	"secret_no_value":         "`cadre secret set GROUP/NAME --from-file FILE`",
	"incomplete_observation":  "Look at the platform or the record that the message names.",
	"paused":                  "`cadre rollout resume GROUP`; for a single Slot `cadre instance update SLOT`",
	"frozen":                  "`cadre unfreeze` or `cadre unfreeze GROUP`; or wait for its end.",
	"group_stopped":           "`stopped = false`",
	"stop_order":              "Wait; look at the step or the hold of the other member.",
	"drained":                 "`cadre instance undrain SLOT`; or wait for its end.",
	"after_group":             "Wait for the named group, or repair it; or change `after`.",
	"cluster_limit":           "Wait; `cadre queue` shows the order. `cadre limits set`, or a higher `priority`.",
	"gate_closed":             "`cadre gate open GROUP/GATE`, with `--slot` for a gate per slot; or wait for its end.",
	"protected":               "`cadre instance unprotect SLOT`; or wait for its end.",
	"rollout_failed":          "Write a corrected spec, `cadre rollout undo GROUP`, or `cadre rollout retry GROUP --reason WHY`.",
	"opportunistic":           "`cadre instance update SLOT`",
	"action_not_allowed":      "Allow the action, revert the change, or `cadre instance update SLOT`.",
	"removal_in_progress":     "Wait.",
	"leader_needs_approval":   "`cadre instance update SLOT`",
	"version_step":            "Write the version that the message names, or run the command that it names.",
	"irreversible_step":       "`cadre instance update SLOT`; before it, `cadre rollout undo GROUP` goes back.",
	"step_delay":              "Wait; `cadre instance update SLOT` skips the pause.",
	"outside_window":          "Wait for the next opening; `cadre instance update SLOT` passes the window.",
	"update_unfinished":       "Finish with `cadre instance update SLOT`, or leave with `cadre rollout undo GROUP`; the restart follows. A Slot that is kept back gets no update: end the cause.",
	"platform_result_unknown": "Wait; after ten minutes look at the CVM: `cadre operation mark-succeeded ID` or `mark-failed`.",
	"duplicate_instance":      "Remove the wrong CVMs on the platform.",
	"instance_missing":        "`cadre instance replace SLOT`",
	"instance_replaced":       "Find its maker, and remove that CVM on the platform. If the bound CVM is gone too: `cadre instance replace SLOT`.",
	"unmanaged_instance":      "`cadre group adopt GROUP`",
	"not_a_member":            "`cadre instance replace SLOT`",
	"platform_busy":           "Wait, until the Slot was away for `healthy_deadline`. A task that still goes on then is a failed boot. `cadre instance restart SLOT`, `cadre instance replace SLOT`, a corrected spec, or healing of a member that was well is then carried out.",
	"backoff":                 "Wait for the next attempt.",
	"refused":                 "Correct the reason in the message, then `cadre rollout retry GROUP --reason WHY`.",
	"domain_in_progress":      "Wait; `cadre instance update SLOT` skips the order. Without `order` the rollout takes members of several domains.",
	"stage_in_progress":       "Wait, or `cadre gate open` as the message says; `cadre instance update SLOT` skips the stages.",
	"stage_baking":            "Wait; `cadre instance update SLOT` skips the stages.",
	"stage_needs_promotion":   "`cadre rollout promote GROUP`.",
	"precondition":            "Change the spec, or correct the platform, as the message says.",
	"predecessor":             "Wait; `management_policy = \"PARALLEL\"` skips this rule.",
	"max_creating":            "Wait; a larger `update_policy.max_creating` creates more slots at a time.",
	"app_id":                  "Wait; remove a lost node from the platform's nodes.",
	"surge_waits":             "See the hold of the step in the message.",
	"placement":               "Add a node, change the rule in the message, or remove `placement.require`.",
	"set_changing":            "Wait. For a member that fails to arrive: `cadre instance replace SLOT`.",
	"voter_scale_in":          "Raise `replicas` again.",
	"preserved_state":         "Remove `preserved_state`, or raise `replicas` again.",
	"delete_disks":            "Give the disk up with `--delete-disks`, or raise `replicas` again.",
	"scale_in_order":          "Wait.",
	"others_unavailable":      "Repair the Slot that the message names.",
	"no_data_source":          "Bring another member back first.",
	"target_unproven":         "Wait for the extra slot; look at it if it does not arrive.",
	"replace_in_progress":     "Wait.",
	"quarantined":             "Look at the Slot; `cadre instance restart SLOT`, where the Slot has a CVM, or `cadre instance replace SLOT`.",
	"heal_backoff":            "Wait.",
	"heal_in_progress":        "Wait.",
	"heal_storm":              "Look for the shared cause; `cadre instance restart SLOT` for a Slot that stays unhealthy, `cadre instance replace SLOT` where the CVM is gone. Several silent members wait for each other by `max_unavailable`: raise that bound.",
	"follower_by_leader":      "Reach its agent; `cadre instance restart SLOT`.",
	"insufficient_reports":    "Check the way between coordinators and members. An operator's request restarts a Slot that is silent for five minutes; a replacement waits.",
	"leader_by_peers":         "Reach its agent, or move leadership away by hand.",
	"max_unavailable":         "Repair the named Slots, or raise `max_unavailable`.",
	"failed_step":             "Repair that Slot, or apply a corrected spec.",
	"interruption_refused":    "`update_policy.interruption = \"allow\"`",
	"voter_cap":               "Wait.",
	"leader_unknown":          "Look at the workload's own cluster.",
	"quorum":                  "Bring voters back.",
	"quorum_unknown":          "Look at the workload's own cluster.",
	"would_lose_quorum":       "Of two: `update_policy.interruption = \"allow\"`, or a third voter. The only voter goes once another exists.",
	"leader_last":             "Wait.",
	"transfer_budget":         "Move leadership to an updated member by hand.",
	"no_transfer_candidate":   "Bring a follower back.",
	"may_disrupt":             "End the reported cause. Where all other waits are over, the rollout reports since when it waits, and `progress_deadline` stands still.",
	"unknown_health":          "Reach its agent; after five minutes the member counts as lost. A restart of its CVM needs no agent.",
	"busy":                    "Wait.",
	"recovering":              "Wait while the lag falls; the message has the end of the wait.",
}

// clearedBy is the remedy of a hold, with the names of its group and its slot filled in; an empty slot stays SLOT.
func clearedBy(predicate, group, slot string) string {
	text := strings.ReplaceAll(clears[predicate], "GROUP", group)
	if slot != "" {
		text = strings.ReplaceAll(text, "SLOT", slot)
	}
	return text
}

// groupRemedies are the remedies that need the name of the group alone.
var groupRemedies = []string{"resume", "unfreeze", "retry", "promote"}

// remedies name the action of the dashboard that clears a hold.
var remedies = map[string]string{
	"paused": "resume", "frozen": "unfreeze", "drained": "undrain", "protected": "unprotect", "not_approved": "approve",
	"rollout_failed": "retry", "refused": "retry", "stage_needs_promotion": "promote",
}
