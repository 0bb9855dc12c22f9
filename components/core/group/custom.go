package group

import (
	"fmt"
	"net/netip"

	"cadre.dev/core/adapter"
)

// Values of the settings of a custom workload.
const (
	SetNone     = "none"
	SetChanges  = "changes"
	SetAdds     = "adds"
	HandOver    = "transfer"
	HandOverEnd = "stop"
)

// customKind is the kind of a workload whose settings name its traits and its adapter.
var customKind = workloadKind{
	settings: []Setting{
		{Name: "exec_service", Kind: SettingText, Line: "Service of the compose file whose declared commands are the adapter. Exclusive with `http`."},
		{Name: "hand_over", Kind: SettingText, Default: HandOver, Of: []string{HandOver, HandOverEnd}, Line: "`transfer`: the adapter moves leadership before the leader stops. `stop`: the leader goes last and is stopped, and the others elect."},
		{Name: "http", Kind: SettingAddress, Line: "Loopback address of the adapter, such as `127.0.0.1:9900`."},
		{Name: "set", Kind: SettingText, Default: SetNone, Of: []string{SetNone, SetChanges, SetAdds}, Line: "`changes`: the adapter removes a member from the workload's set before its disk goes. `adds`: the adapter also lists a new member before it starts."},
		{Name: "voters", Kind: SettingText, Default: "false", Of: []string{"false", "true"}, Line: "`true`: the members vote, and a majority of them stays."},
	},
	judge: func(v SettingValues) []Problem {
		if (v["http"] == "") == (v["exec_service"] == "") {
			return []Problem{{Path: `workload.settings["http"]`, Message: "give either http, the address of the adapter, or exec_service, the service whose commands are the adapter"}}
		}
		if problem := NameProblem(v["exec_service"]); v["exec_service"] != "" && problem != "" {
			return []Problem{{Path: `workload.settings["exec_service"]`, Message: problem + ": name a service of the compose file"}}
		}
		if at, err := netip.ParseAddrPort(v["http"]); v["http"] != "" && (err != nil || !at.Addr().IsLoopback()) {
			return []Problem{{Path: `workload.settings["http"]`, Message: fmt.Sprintf("%q is no loopback address: the adapter runs in the same CVM, so write 127.0.0.1:PORT or [::1]:PORT", v["http"])}}
		}
		return nil
	},
	of: func(v SettingValues) workloadKind {
		return workloadKind{
			voters:      v["voters"] == "true",
			set:         setTraits{changes: v["set"] == SetChanges || v["set"] == SetAdds, adds: v["set"] == SetAdds, leavesAlive: v["set"] == SetAdds},
			stopsLeader: v["hand_over"] == HandOverEnd,
		}
	},
}

// AdapterCommands are the commands that an adapter of the exec form must have, by its settings; nil: the
// workload has no such adapter.
func (w Workload) AdapterCommands() []ExecAction {
	service := w.Settings["exec_service"]
	if w.Kind != WorkloadCustom || service == "" {
		return nil
	}
	names := []string{adapter.CommandMember, adapter.CommandDrain, adapter.CommandUndrain}
	if !w.traits().stopsLeader {
		names = append(names, adapter.CommandTransfer)
	}
	if w.traits().set.changes {
		names = append(names, adapter.CommandSet)
	}
	out := make([]ExecAction, 0, len(names))
	for _, name := range names {
		out = append(out, ExecAction{Service: service, Command: name})
	}
	return out
}
