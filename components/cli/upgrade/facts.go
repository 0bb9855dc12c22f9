package upgrade

import (
	"fmt"
	"slices"
	"strings"

	"cadre.dev/core/group"
)

// Content is that of a coordinator's CVM. A zero field is unknown, or not wanted otherwise.
type Content struct {
	ComposeHash  string `json:"compose_hash"`
	OSImage      string `json:"os_image,omitempty"`
	InstanceType string `json:"instance_type,omitempty"`
	DiskGB       int    `json:"disk_gb,omitempty"`
	// OldEnv: the CVM is to get its env values again. No platform shows them, so that this is the wish of
	// a person and not a comparison. It is false in wanted content.
	OldEnv bool `json:"old_env,omitempty"`
}

// Changes names the differences of c from want, for people; nil: none.
func (c Content) Changes(want Content) []string {
	var out []string
	add := func(name, is, to string) {
		if is != "" && to != "" && is != to {
			out = append(out, fmt.Sprintf("%s %s -> %s", name, short(is), short(to)))
		}
	}
	add("compose hash", c.ComposeHash, want.ComposeHash)
	if !group.SameOSImage(c.OSImage, want.OSImage) {
		add("OS image", c.OSImage, want.OSImage)
	}
	add("instance type", c.InstanceType, want.InstanceType)
	if c.DiskGB > 0 && want.DiskGB > 0 && c.DiskGB != want.DiskGB {
		out = append(out, fmt.Sprintf("disk %d GB -> %d GB", c.DiskGB, want.DiskGB))
	}
	if c.OldEnv && !want.OldEnv {
		out = append(out, "env values of the file")
	}
	return out
}

func short(s string) string {
	if len(s) == 64 {
		return s[:12]
	}
	return s
}

// Coordinator is one coordinator as the platform and the coordinators show it.
type Coordinator struct {
	Slot string `json:"slot"`
	// Exists: the platform has one CVM of its name. The next five are the platform's.
	Exists bool   `json:"exists"`
	Status string `json:"status,omitempty"`
	// Running is a stable state, StaysDown too; in neither of them the platform works on the CVM.
	Running   bool    `json:"running"`
	StaysDown bool    `json:"stays_down,omitempty"`
	BootError string  `json:"boot_error,omitempty"`
	Is        Content `json:"is"`
	// Changing: a change was accepted, and its Boot has not been seen yet.
	Changing bool `json:"changing,omitempty"`
	// Answers: the coordinator proved itself and answered; else Problem says why not. Proven is the
	// compose hash that its evidence proves, the others are its own answer.
	Answers  bool   `json:"answers"`
	Problem  string `json:"problem,omitempty"`
	Proven   string `json:"proven,omitempty"`
	Version  string `json:"version,omitempty"`
	Halted   string `json:"halted,omitempty"`
	Sessions int    `json:"sessions"`
	// Connected are the other coordinators to which it has a session.
	Connected []string `json:"connected,omitempty"`
	// Voter and Healthy are autopilot's words about its Consul server. While all coordinators are
	// Older, they are true if the coordinator answers and knows the same leader as the others.
	Voter   bool `json:"voter"`
	Healthy bool `json:"healthy"`
	// Older: its version cannot step down, and does not show Consul's servers.
	Older bool `json:"older,omitempty"`
}

// Facts is all that one decision reads.
type Facts struct {
	Wanted Content `json:"wanted"`
	// Coordinators by ordinal: all that the cluster is to have.
	Coordinators []Coordinator `json:"coordinators"`
	// Leader holds the Lease, RaftLeader is the coordinator whose Consul server leads; "": unknown.
	Leader     string `json:"leader,omitempty"`
	RaftLeader string `json:"raft_leader,omitempty"`
	// OtherServers are in the configuration of Raft and belong to none of the coordinators.
	OtherServers []string `json:"other_servers,omitempty"`
}

// Unwell lists why a coordinator is not a healthy one on which another one's change may rely; nil: it
// is well.
func (f Facts) Unwell(c Coordinator) (reasons []string) {
	add := func(format string, args ...any) {
		reasons = append(reasons, c.Slot+" "+fmt.Sprintf(format, args...))
	}
	switch {
	case !c.Exists:
		add("has no CVM on the platform")
		return reasons
	case !c.Running:
		add("is %s on the platform", orUnknown(c.Status))
	case c.Changing:
		add("has not booted since its change")
	}
	if c.BootError != "" && !c.Answers {
		add("does not boot: %s", c.BootError)
	}
	switch {
	case !c.Running && !c.Answers:
		return reasons
	case !c.Answers:
		add("does not answer: %s", c.Problem)
		return reasons
	case c.Proven != c.Is.ComposeHash && c.Is.ComposeHash != "":
		add("proves compose hash %s, and the platform shows %s", short(c.Proven), short(c.Is.ComposeHash))
	}
	if c.Halted != "" {
		add("is halted: %s", c.Halted)
	}
	switch {
	case !c.Voter:
		add("has no vote in Consul")
	case !c.Healthy:
		add("is unhealthy for autopilot")
	}
	most := 0
	for _, other := range f.Coordinators {
		most = max(most, other.Sessions)
		if other.Slot != c.Slot && other.Answers && !slices.Contains(c.Connected, other.Slot) && (f.isolated(c) || !f.isolated(other)) {
			add("has no session with %s", other.Slot)
		}
	}
	// Members come and go while all coordinators are asked, so that the last percent does not count.
	if (most-c.Sessions)*100 > most {
		add("has sessions with %d of %d members", c.Sessions, most)
	}
	return reasons
}

// isolated reports that a coordinator has a session with none of the others: then it, and not each of
// them, is unwell.
func (f Facts) isolated(c Coordinator) bool {
	return !slices.ContainsFunc(f.Coordinators, func(other Coordinator) bool {
		return other.Slot != c.Slot && slices.Contains(c.Connected, other.Slot)
	})
}

func orUnknown(status string) string {
	if status == "" {
		return "in an unknown state"
	}
	return strings.ToLower(status)
}
