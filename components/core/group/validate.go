package group

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cadre.dev/core/appcompose"
)

// Validate reports every problem of a spec at once as a *ValidationError, or nil. Absent fields
// count with their defaults. Validate judges the document alone: a problem that depends on the
// state of the cluster is a Hold of the plan.
func Validate(s Spec) error { return (&validator{}).all(s) }

// ValidateAccepted validates a spec that a leader accepted, perhaps of an earlier version. It
// ignores problems that only make a part of the spec ineffective, or that only agents reject: such
// a problem is no reason to stop a running group.
func ValidateAccepted(s Spec) error { return (&validator{accepted: true}).all(s) }

func (v *validator) all(s Spec) error {
	s = s.clone()
	s.Normalize()
	v.group(s)
	// Later checks count slots: a wrong number is clamped to the nearest valid one for them.
	s.Replicas = clamp(s.Replicas, 1, MaxReplicas)
	v.template(s.Template)
	v.updatePolicy(s)
	v.voters(s)
	v.placement(s)
	v.workload(s)
	v.hooks(s.LifecycleHooks)
	v.checks(s.HealthChecks)
	v.backends(s)
	v.routes(s)
	v.consulPermissions(s)
	v.meta("meta", s.Meta)
	v.instances(s)
	v.healing(s)
	v.secrets(s)
	v.gates(s)
	v.order(s)
	v.leaks(s)
	if len(v.problems) == 0 {
		return nil
	}
	return &ValidationError{Group: s.Name, Problems: v.problems}
}

// ProblemsIn returns the problems of one of the spec's fields, such as "health_check", for callers
// that have only a part of a spec.
func ProblemsIn(s Spec, field string) []Problem {
	var invalid *ValidationError
	if !errors.As(Validate(s), &invalid) {
		return nil
	}
	return slices.DeleteFunc(invalid.Problems, func(p Problem) bool { return !Within(p.Path, field) })
}

// Warnings lists settings that are allowed and harmful, or less effective than they look (R17, R18,
// R19, R46).
func Warnings(s Spec) []string {
	var out []string
	if s.Replicas == 1 {
		out = append(out, "will_interrupt: a group of one has no member to take over, so each update interrupts it (R18)")
	}
	if HasVoters(s) && s.Replicas == 2 && s.UpdatePolicy.Interruption == InterruptionAllow {
		out = append(out, "will_interrupt: of two voters each update loses quorum; three voters would not (R19)")
	}
	if HasVoters(s) && s.Replicas > 2 && s.Replicas%2 == 0 {
		out = append(out, fmt.Sprintf("even_voters: %d voters tolerate no more failures than %d (R19)", s.Replicas, s.Replicas-1))
	}
	if StopsLeader(s) && !HasVoters(s) {
		out = append(out, `no_majority: workload.settings["hand_over"] is "stop" and voters is "false": no rule keeps a majority that could elect after a leader's stop; set voters = "true", or let the adapter's may_disrupt protect the election; a workload without a leader needs neither`)
	}
	if h := s.AutoHealing; h != nil && h.Replace == ReplaceAuto && s.Replicas == 1 && HasDriver(s) {
		out = append(out, fmt.Sprintf("no_data_source: auto_healing_policies.replace is %q, and a group of one has no other member with its data for a new CVM: it is not replaced automatically (R46)", ReplaceAuto))
	}
	ordinals := s.Ordinals() // once: both lists may be long
	for _, one := range s.Instances {
		if _, has := slices.BinarySearch(ordinals, one.Ordinal); !has {
			out = append(out, fmt.Sprintf("no_such_slot: %s is about no slot: replicas is %d, and the ordinals go from %d to %d", instancePath(one), s.Replicas, s.first(), s.lastOrdinal()))
		}
	}
	if HasVoters(s) && MaxUnavailable(s) > max(VoterCap(s, s.Replicas), 1) {
		out = append(out, fmt.Sprintf("voter_cap: max_unavailable is %d, voters are updated %d at a time (R17)",
			MaxUnavailable(s), max(VoterCap(s, s.Replicas), 1)))
	}
	return append(out, stageWarnings(s)...)
}

// Values of update_policy.interruption.
const (
	// InterruptionAllow lets a rollout lose quorum where it must (R19).
	InterruptionAllow = "allow"
	// InterruptionRefuse keeps even a group of one from being interrupted (R18).
	InterruptionRefuse = "refuse"
)

// Values of update_policy.irreversible.
const (
	// IrreversibleAsk holds the step that cannot be undone until a person names its Slot. The default.
	IrreversibleAsk = "ask"
	// IrreversibleAllow holds no step for that.
	IrreversibleAllow = "allow"
)

// Values of update_policy.leader.
const (
	// LeaderLast updates the Slot that leads after all others, with one hand-over (R53).
	LeaderLast = "last"
	// LeaderAsk does so when a person names the Slot.
	LeaderAsk = "ask"
)

const (
	maxDiskGB      = 65536
	maxEnvBytes    = 64 << 10
	maxMinReadySec = 3600
	maxDeadline    = 7 * 24 * time.Hour
	maxStepDelay   = 24 * time.Hour
)

type validator struct {
	problems []Problem
	accepted bool
}

func (v *validator) add(path, rule, format string, args ...any) {
	v.problems = append(v.problems, Problem{Path: path, Rule: rule, Message: fmt.Sprintf(format, args...)})
}

func (v *validator) group(s Spec) {
	if p := NameProblem(s.Name); p != "" {
		v.add("name", "", "%s", p)
	}
	if s.Name == Coordinators {
		v.add("name", "", "%q is the identity of the coordinators: choose another name", s.Name)
	}
	if !slices.Contains(Platforms(), s.Platform) {
		v.add("platform", "", "%q is not a known platform driver: use %s", s.Platform, strings.Join(Platforms(), " or "))
	}
	if s.AppID != "" && !isHex(s.AppID, 40) {
		v.add("app_id", "", "must be 40 lower-case hex digits, or absent to let the first create allot it")
	}
	if s.Replicas == 0 {
		v.add("replicas", "R147", "is 0: must be 1 to %d; to stop every slot and keep the disks, set stopped = true; to end the group, delete it", MaxReplicas)
	} else if s.Replicas < 0 || s.Replicas > MaxReplicas {
		v.add("replicas", "", "is %d: must be 1 to %d", s.Replicas, MaxReplicas)
	} else if HasDriver(s) && s.Replicas > MaxDriven {
		v.add("replicas", "", "is %d: a group with workload.kind %q has at most %d", s.Replicas, s.Workload.Kind, MaxDriven)
	}
	v.without(s)
	if s.ManagementPolicy != OrderedReady && s.ManagementPolicy != Parallel {
		v.add("management_policy", "", "%q is unknown: use %s or %s", s.ManagementPolicy, OrderedReady, Parallel)
	}
	v.preservedDisk("preserved_state.disk", s.PreservedState.Disk)
	if len(s.RestartToken) > 128 {
		v.add("restart_token", "", "has %d bytes, at most 128 are allowed", len(s.RestartToken))
	}
}

func (v *validator) template(t Template) {
	images, problems := ComposeImages(t.Compose)
	if t.Compose == "" {
		images, problems = nil, []ComposeProblem{{Message: "is missing: give the text of a compose file"}}
	}
	for _, p := range problems {
		v.add("template.compose", "ATT-16", "%s", p)
	}
	if len(problems) == 0 && len(images) == 0 {
		v.add("template.compose", "ATT-16", "no service with an image was found under \"services:\"")
	}
	v.instanceType("template.instance_type", t.InstanceType)
	if !isPlainWord(t.OSImage, 64) {
		v.add("template.os_image", "", "must be one word of at most 64 characters, e.g. \"dstack-0.5.7\"")
	}
	if t.DiskGB < 0 || t.DiskGB > maxDiskGB {
		v.add("template.disk_gb", "", "is %d: must be 0 (the platform's default) to %d", t.DiskGB, maxDiskGB)
	}
	v.env(t.Env)
}

func (v *validator) instanceType(path, name string) {
	if !isPlainWord(name, 64) {
		v.add(path, "", "must be one word of at most 64 characters, e.g. \"tdx.small\"")
	}
}

// maxEnvNames bounds the names of env together, as a policy record carries them.
const maxEnvNames = 4 << 10

func (v *validator) env(env map[string]string) {
	total, names := 0, 0
	// They may be set although they start with CADRE_: they locate, and are never trusted.
	locators := appcompose.MemberLocators()
	for _, name := range sortedKeys(env) {
		path := fmt.Sprintf("template.env[%q]", name)
		total += len(name) + len(env[name])
		names += len(name) + 1
		switch {
		case !isEnvName(name):
			v.add(path, "", "is not a variable name: letters, digits and '_', not starting with a digit, at most 128 bytes")
		case strings.HasPrefix(name, "CADRE_") && !slices.Contains(locators, name):
			v.add(path, "", "is reserved: of CADRE_* only %s may be set", strings.Join(locators, ", "))
		case appcompose.Steers(name):
			v.add(path, "ATT-17", "is loaded into the guest's root shell, where names like it decide which code runs or whom a process believes, and env is not measured: %s", appcompose.EnvNameFix(name))
		case strings.ContainsRune(env[name], 0):
			v.add(path, "", "contains a zero byte")
		}
	}
	if total > maxEnvBytes {
		v.add("template.env", "", "has %d bytes in all, at most %d are allowed", total, maxEnvBytes)
	}
	if names > maxEnvNames {
		v.add("template.env", "", "has names of %d bytes in all, at most %d are allowed: write what is no secret into the compose file", names, maxEnvNames)
	}
}

func (v *validator) meta(path string, meta map[string]string) {
	total := 0
	for _, name := range sortedKeys(meta) {
		total += len(name) + len(meta[name])
		if !isEnvName(name) {
			v.add(fmt.Sprintf("%s[%q]", path, name), "",
				"is not a usable key: letters, digits and '_', not starting with a digit, since it becomes CADRE_META_<KEY>")
		}
	}
	if total > maxEnvBytes {
		v.add(path, "", "has %d bytes in all, at most %d are allowed", total, maxEnvBytes)
	}
}

// item checks the name of one of several named blocks.
func (v *validator) item(path, name string, seen map[string]bool) {
	if p := NameProblem(name); p != "" {
		v.add(path, "", "its name %s", p)
	}
	if seen[name] {
		v.add(path, "", "stands twice: names must differ")
	}
	seen[name] = true
}

func (v *validator) port(path string, port int) {
	if port < 1 || port > 65535 {
		v.add(path, "", "is %d: must be 1 to 65535", port)
	}
}

// within adds a problem unless d is at least a second and at most high.
func (v *validator) within(path, rule string, d, high time.Duration) bool {
	if d >= time.Second && d <= high {
		return true
	}
	v.add(path, rule, "is %s: must be 1s to %s", d, high)
	return false
}
