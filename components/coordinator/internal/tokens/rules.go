package tokens

import (
	"fmt"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/store"
)

// catalogRules let a member see the catalog, but for the node that Cadre's own sessions
// are on: a session ends with its node, and a member is in Consul's gossip, where it
// could give itself any name that it knows.
func catalogRules() string {
	return fmt.Sprintf("node_prefix \"\" { policy = \"read\" }\nnode_prefix %q { policy = \"deny\" }\nservice_prefix \"\" { policy = \"read\" }\n", store.LeaseNodePrefix)
}

// agentRules let the Consul agent of a Slot answer its CVM and compare the catalog with
// what it has. It may write no node, its own least of all: who may can put the ID of
// another one to its name, and Consul then removes that node with all sessions on it
// (IDN-09). Its node is registered by Consul's leader, from gossip.
func agentRules(slot string) string {
	return catalogRules() + fmt.Sprintf("agent %q { policy = \"read\" }\n", slot)
}

// workloadRules are exactly what the workload kind needs. Every kind may see the
// catalog. None may write it: nothing registers services, and the right to do so
// would let a workload put its group's name on any node (IDN-09).
func workloadRules(workload group.Workload, groupName, slot string) string {
	var b strings.Builder
	b.WriteString(catalogRules())
	if workload.Kind == "" || workload.Kind == group.WorkloadNone {
		return b.String()
	}
	fmt.Fprintf(&b, "agent %q { policy = \"read\" }\n", slot)
	if workload.Kind == group.WorkloadPatroni {
		// Leader lock and configuration of its own scope, which is the group's
		// name; sessions of its own node.
		fmt.Fprintf(&b, "key_prefix %q { policy = \"write\" }\n", "service/"+groupName+"/")
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

// operatorRules let an operator read everything of Cadre's, use the switches,
// and write the spec of each known group by its exact key: a prefix rule would
// also open the records that only the leader may write.
func operatorRules(groups []string) string {
	var b strings.Builder
	b.WriteString(`key_prefix "cadre/v1/" { policy = "read" }
key_prefix "cadre/v1/control/" { policy = "write" }
node_prefix "" { policy = "read" }
service_prefix "" { policy = "read" }
agent_prefix "" { policy = "read" }
session_prefix "" { policy = "read" }
operator = "read"
`)
	for _, g := range groups {
		fmt.Fprintf(&b, "key %q { policy = \"write\" }\n", specKey(g))
	}
	return b.String()
}

func specKey(g string) string { return "cadre/v1/groups/" + g + "/spec" }
