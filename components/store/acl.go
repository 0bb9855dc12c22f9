package store

import (
	"fmt"
	"slices"
	"strings"
)

// OperatorRules returns the Consul ACL policy of operators. They read every record and Consul's
// catalog of members. They write the specs of groups and the switches below control/, and nothing
// else. Consul has no wildcard inside a path, so each group's spec has a rule with its exact key: a
// prefix rule would also open the records that only the leader may write. Update the policy when a
// group is added or removed.
func OperatorRules(prefix string, groups []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "key_prefix %q { policy = \"read\" }\n", prefix)
	fmt.Fprintf(&b, "key_prefix %q { policy = \"write\" }\n", prefix+ControlPrefix)
	for _, what := range []string{"node", "service", "agent", "session"} {
		fmt.Fprintf(&b, "%s_prefix \"\" { policy = \"read\" }\n", what)
	}
	b.WriteString("operator = \"read\"\n")
	for _, g := range slices.Compact(slices.Sorted(slices.Values(groups))) {
		spec := GroupSpecKey(g)
		if CheckKey(spec) != nil {
			continue
		}
		fmt.Fprintf(&b, "key %q { policy = \"write\" }\n", prefix+spec)
	}
	return b.String()
}
