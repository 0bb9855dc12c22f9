package tokens

import (
	"fmt"
	"slices"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/store"
)

// catalogRules let a member read the catalog except the node of Cadre's own sessions: a session
// ends with its node.
func catalogRules() string {
	return fmt.Sprintf("node_prefix \"\" { policy = \"read\" }\nnode_prefix %q { policy = \"deny\" }\nservice_prefix \"\" { policy = \"read\" }\n", store.LeaseNodePrefix)
}

// workloadRules are exactly the rights of the workload kind, plus the spec's requests within the
// group's own keys. Every kind may read the catalog. None may write it, because the right to write
// a service would let a workload deregister it on any node (IDN-09): coordinators write it. No rule
// covers agents, because members have none.
func workloadRules(spec group.Spec, slot string) string {
	var b strings.Builder
	b.WriteString(catalogRules())
	scope, asked := group.KeyScope(spec.Name), spec.ConsulPermissions
	patroni := spec.Workload.Kind == group.WorkloadPatroni
	var prefixes []string
	if patroni {
		// Patroni needs the leader lock and the configuration of its own scope, which is the
		// group's name.
		prefixes = append(prefixes, scope)
	}
	for _, prefix := range asked.KeyPrefixes {
		// Validation rejects other prefixes. This check holds even if validation fails to.
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
