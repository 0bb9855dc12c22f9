package store

import (
	"fmt"
	"slices"
	"strings"
)

// OperatorRules is the Consul ACL policy of operators: they read every record
// and write the specs of groups and the switches below control/, nothing else.
// Consul has no wildcard inside a path, so each group's spec is a rule of its
// own: make the policy anew when a group comes or goes.
func OperatorRules(prefix string, groups []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "key_prefix %q {\n  policy = \"read\"\n}\n", prefix)
	fmt.Fprintf(&b, "key_prefix %q {\n  policy = \"write\"\n}\n", prefix+ControlPrefix)
	for _, g := range slices.Sorted(slices.Values(groups)) {
		spec := GroupSpecKey(g)
		if CheckKey(spec) != nil {
			continue
		}
		fmt.Fprintf(&b, "key %q {\n  policy = \"write\"\n}\n", prefix+spec)
	}
	return b.String()
}
