package xds

import (
	"fmt"
	"slices"
	"strings"

	"cadre.dev/core/group"
)

// Caller is the authenticated origin of a connection, from its Session.
type Caller struct{ Group, Slot, Boot string }

// Identity is a proxy that each member of a group may be.
type Identity struct {
	// ID of the proxy in the catalog, and Service, its service.
	ID, Service string
}

// Identities returns the proxies that a group's part in the service layer gives each of its
// members.
func Identities(mesh group.ServiceMesh) []Identity {
	var out []Identity
	for _, p := range mesh.Proxies {
		out = append(out, Identity{ID: p.ID, Service: p.Service})
	}
	return out
}

// judge returns nil if the node is one of the proxies of the caller, and otherwise the reason.
func judge(c Caller, proxies []Identity, n node) error {
	if n.nodeName != c.Slot {
		return fmt.Errorf("node.metadata.node_name is %.80q and the session is of %s: set it to the slot's name", n.nodeName, c.Slot)
	}
	at := slices.IndexFunc(proxies, func(p Identity) bool { return p.ID == n.id && p.ID != "" })
	switch {
	case at < 0 && len(proxies) == 0:
		return fmt.Errorf("node.id is %.80q and group %s has no proxies: no route names one of its backends, and no route permits it", n.id, c.Group)
	case at < 0:
		return fmt.Errorf("node.id is %.80q and %s may be %s", n.id, c.Slot, ids(proxies))
	case proxies[at].Service != n.cluster:
		return fmt.Errorf("node.cluster is %.80q: want %s, the service of %s", n.cluster, proxies[at].Service, n.id)
	}
	return nil
}

func ids(proxies []Identity) string {
	var out []string
	for _, p := range proxies {
		out = append(out, p.ID)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// services returns the services of proxies, each once, in order.
func services(proxies []Identity) []string {
	var out []string
	for _, p := range proxies {
		out = append(out, p.Service)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
