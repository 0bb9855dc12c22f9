package format

import (
	"cmp"

	"cadre.dev/core/group"
)

// Node is the platform's node of an instance with its region, such as "host-a (eu-west)"; "" for an unknown node.
func Node(i group.InstanceStatus) string {
	name := cmp.Or(i.NodeName, i.Node)
	if name != "" && i.Region != "" {
		return name + " (" + i.Region + ")"
	}
	return name
}
