package group

// SlotState describes a Slot in one word for operators. During a step the state is the step's,
// otherwise the Slot's. Where several states apply to a Slot without a step, the first of the list
// from SlotMissing on wins.
type SlotState string

const (
	// SlotDraining: its agent runs PRE_TERMINATE hooks and hands leadership over.
	SlotDraining SlotState = "Draining"
	// SlotDrained: the drain is complete. The state lasts while an operator keeps the Slot out of
	// service, and appears shortly in each step that stops the Slot.
	SlotDrained SlotState = "Drained"
	// SlotNotDrained: a drain was requested, and the workload could not be drained or leads again.
	SlotNotDrained SlotState = "NotDrained"
	// SlotCreating: the platform is asked for its CVM.
	SlotCreating SlotState = "Creating"
	// SlotUpdating: the platform is asked to move its CVM to another Revision.
	SlotUpdating SlotState = "Updating"
	// SlotRefreshing: it serves while its Boot attests at another Revision.
	SlotRefreshing SlotState = "Refreshing"
	// SlotRestarting: the platform is asked to restart its CVM, or the agent restarts one service.
	SlotRestarting SlotState = "Restarting"
	// SlotReplacing: its CVM makes room for another one with an empty disk.
	SlotReplacing SlotState = "Replacing"
	// SlotDeleting: its CVM is removed.
	SlotDeleting SlotState = "Deleting"
	// SlotStopping: the platform is asked to stop its CVM, since the spec has `stopped = true`.
	SlotStopping SlotState = "Stopping"
	// SlotStopped: its CVM is stopped with its disk while the spec has `stopped = true`.
	SlotStopped SlotState = "Stopped"
	// SlotJoining: its new Boot was admitted; POST_LAUNCH hooks, health and catch-up are awaited.
	SlotJoining SlotState = "Joining"

	// SlotMissing: no CVM fills it and none ever did.
	SlotMissing SlotState = "Missing"
	// SlotVanished: the platform does not list its CVM any more.
	SlotVanished SlotState = "Vanished"
	// SlotTerminating: the group is to be without it.
	SlotTerminating SlotState = "Terminating"
	// SlotOutOfSet: the workload's set does not know it any more, while its CVM is there.
	SlotOutOfSet SlotState = "OutOfSet"
	// SlotQuarantined: healing gave it up; an operator decides (R118).
	SlotQuarantined SlotState = "Quarantined"
	// SlotAvailable: it counts (R8).
	SlotAvailable SlotState = "Available"
	// SlotFlapping: it was available and not by turns, and counts when it was for long enough (R9).
	SlotFlapping SlotState = "Flapping"
	// SlotSettling: available except for min_ready, in a step or without one.
	SlotSettling SlotState = "Settling"
	// SlotFailed: its last step failed, and it is not available since.
	SlotFailed SlotState = "Failed"
	// SlotBooting: its CVM starts, in a step or without one, and no Boot of it was admitted yet.
	SlotBooting SlotState = "Booting"
	// SlotUnavailable: none of these.
	SlotUnavailable SlotState = "Unavailable"
)
