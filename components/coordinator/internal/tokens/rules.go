package tokens

import (
	"fmt"
	"slices"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/store"
)

// catalogRules let a member see the catalog, but for the node that Cadre's own sessions
// are on: a session ends with its node.
func catalogRules() string {
	return fmt.Sprintf("node_prefix \"\" { policy = \"read\" }\nnode_prefix %q { policy = \"deny\" }\nservice_prefix \"\" { policy = \"read\" }\n", store.LeaseNodePrefix)
}

// workloadRules are exactly what the workload kind needs, and what the spec asks for within
// the group's own keys. Every kind may see the catalog. None may write it: coordinators do,
// and the right to write a service would let a workload deregister it on any node (IDN-09).
// None is about agents: members have none.
func workloadRules(spec group.Spec, slot string) string {
	var b strings.Builder
	b.WriteString(catalogRules())
	scope, asked := group.KeyScope(spec.Name), spec.ConsulPermissions
	patroni := spec.Workload.Kind == group.WorkloadPatroni
	var prefixes []string
	if patroni {
		// Leader lock and configuration of its own scope, which is the group's name.
		prefixes = append(prefixes, scope)
	}
	for _, prefix := range asked.KeyPrefixes {
		// Validation refuses the others; a right over keys of others is never given all the same.
		if strings.HasPrefix(prefix, scope) {
			prefixes = append(prefixes, prefix)
		}
	}
	slices.Sort(prefixes)
	for _, prefix := range slices.Compact(prefixes) {
		fmt.Fprintf(&b, "key_prefix %q { policy = \"write\" }\n", prefix)
	}
	if patroni || asked.SessionWrite {
		fmt.Fprintf(&b, "session %q { policy = \"write\" }\n", slot)
	}
	return b.String()
}

// coordinatorRules let the Consul server of a coordinator register itself.
func coordinatorRules(slot string) string {
	return fmt.Sprintf(`node %q { policy = "write" }
agent %q { policy = "write" }
node_prefix "" { policy = "read" }
service_prefix "" { policy = "read" }
`, slot, slot)
}

// operatorRules are those that docs/kv.md shows.
func operatorRules(groups []string) string { return store.OperatorRules(store.DefaultPrefix, groups) }
