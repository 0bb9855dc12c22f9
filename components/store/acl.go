package store

import (
	"fmt"
	"slices"
	"strings"
)

// Role is the set of records that an operator may change. Every role reads all records, and Consul's
// catalog.
type Role string

const (
	// RoleView changes nothing.
	RoleView Role = "view"
	// RoleOperate changes specs and the switches of groups. It decides about no admission.
	RoleOperate Role = "operate"
	// RoleApprove decides about admissions. It changes no spec.
	RoleApprove Role = "approve"
	// RoleAdmin changes every record of operators, other operators included.
	RoleAdmin Role = "admin"
)

// Roles lists all roles, the narrowest first.
var Roles = []Role{RoleView, RoleOperate, RoleApprove, RoleAdmin}

// writers names, for each record of operators, the role below admin that may write it. Other records
// are admin's alone. Consul's rules treat a deletion as a write. A record whose deletion loosens
// admission is therefore approve's.
var writers = map[string]Role{
	"groups/<group>/spec":         RoleOperate,
	"control/pause/<group>":       RoleOperate,
	"control/freeze/<scope>":      RoleOperate,
	"control/drain/<slot>":        RoleOperate,
	"control/protect/<slot>":      RoleOperate,
	"control/exclude/<slot>":      RoleOperate,
	"control/gate/<group>/<gate>": RoleOperate, "control/gate/<group>/<gate>/<slot>": RoleOperate,
	"control/limits":                   RoleOperate,
	"control/override/<group>/<hold>":  RoleOperate,
	"control/queue/<id>":               RoleOperate,
	"control/delete/<group>":           RoleOperate,
	"control/delete-disks/<group>":     RoleOperate,
	"control/rotate/<group>/<secret>":  RoleOperate,
	"control/seal/<group>/<secret>":    RoleOperate,
	"control/approvals/<revision>":     RoleApprove,
	"control/require-approval":         RoleApprove,
	"control/revocations/<revocation>": RoleApprove,
	"control/floor/<scope>":            RoleApprove,
	"control/tcb-exceptions/<id>":      RoleApprove,
	"control/collateral/<fmspc>":       RoleApprove,
}

// rights are keys without a record: the right to write one is the right to an act. RoleOperate has
// them, and RoleAdmin.
var rights = []string{"control/logs/<group>", "control/run/<group>"}

// MayWrite reports whether a role may write the records of the operators' kind k, in its groups.
func (r Role) MayWrite(k Kind) bool {
	return k.Writer == Operator && (r == RoleAdmin || r != RoleView && writers[k.Pattern] == r)
}

// RoleRules returns the Consul ACL policy of a role. groups limits operate to these groups; empty:
// all groups. The other roles always cover all groups. existing are the groups of the cluster.
//
// Consul has no wildcard inside a path, so the spec of each group has a rule with its exact key: a
// prefix rule would also open the records that only the leader may write. Render the policies again
// when a group is added.
func RoleRules(prefix string, role Role, groups, existing []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "key_prefix %q { policy = \"read\" }\n", prefix)
	for _, resource := range []string{"node", "service", "agent", "session"} {
		fmt.Fprintf(&b, "%s_prefix \"\" { policy = \"read\" }\n", resource)
	}
	b.WriteString("operator = \"read\"\n")
	if role == RoleAdmin {
		fmt.Fprintf(&b, "key_prefix %q { policy = \"write\" }\n", prefix+ControlPrefix)
	}
	existing, groups = names(existing), names(groups)
	for _, kind := range Records {
		switch {
		case !role.MayWrite(kind):
		case kind.Pattern == specPattern:
			scope := existing
			if role == RoleOperate && len(groups) > 0 {
				scope = groups
			}
			for _, g := range scope {
				rule(&b, "key", prefix+GroupSpecKey(g), "write")
			}
		case role == RoleAdmin: // the rule of control/ covers it
		case len(groups) > 0 && !strings.Contains(kind.Pattern, "<"): // a record about all groups
		case len(groups) > 0 && role == RoleOperate:
			for _, g := range groups {
				groupRule(&b, prefix, kind.Pattern, g, groups, existing)
			}
		default:
			key, _, variable := strings.Cut(kind.Pattern, "<")
			if variable {
				rule(&b, "key_prefix", prefix+key, "write")
			} else {
				rule(&b, "key", prefix+key, "write")
			}
		}
	}
	for _, pattern := range rights {
		key, _, _ := strings.Cut(pattern, "<")
		switch {
		case role != RoleOperate:
		case len(groups) == 0:
			rule(&b, "key_prefix", prefix+key, "write")
		default:
			for _, g := range groups {
				groupRule(&b, prefix, pattern, g, groups, existing)
			}
		}
	}
	return b.String()
}

const specPattern = "groups/<group>/spec"

// rule writes a rule once: two patterns may have the same prefix.
func rule(b *strings.Builder, resource, key, policy string) {
	if line := fmt.Sprintf("%s %q { policy = %q }\n", resource, key, policy); !strings.Contains(b.String(), line) {
		b.WriteString(line)
	}
}

// groupRule writes the rule that opens the records of one pattern for one group.
func groupRule(b *strings.Builder, prefix, pattern, g string, groups, existing []string) {
	head, rest, _ := strings.Cut(pattern, "<")
	head = prefix + head
	switch variable, more, _ := strings.Cut(rest, ">"); {
	case variable == "slot":
		// The names of slots begin with the group's name. Groups with a longer name that begins the
		// same way are closed again: the longest matching rule counts.
		rule(b, "key_prefix", head+g+"-", "write")
		for _, other := range existing {
			if strings.HasPrefix(other, g+"-") && !slices.Contains(groups, other) {
				rule(b, "key_prefix", head+other+"-", "read")
			}
		}
	case variable == "id":
		rule(b, "key_prefix", head+ScopedID(g, ""), "write")
	case more != "":
		rule(b, "key_prefix", head+g+"/", "write")
	default:
		rule(b, "key", head+g, "write")
	}
}

// ScopedID returns the id of a request that an operator of one group may write: the group, a dot,
// and the id.
func ScopedID(g, id string) string { return g + "." + id }

// names returns the valid names of groups, sorted, each once.
func names(groups []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.DeleteFunc(slices.Clone(groups), func(g string) bool {
		return !nameGrammar.MatchString(g)
	}))))
}
