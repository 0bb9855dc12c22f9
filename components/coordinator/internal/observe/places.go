package observe

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/placement"
	"cadre.dev/core/rollout"
	"cadre.dev/platform"
)

const (
	// nodesFor is how long the platform's nodes are used before they are read again. Nodes come and go rarely, and a
	// node that does not answer shows in each listing.
	nodesFor = time.Minute
	// nodesWithin bounds one read of the nodes: a listing waits for it.
	nodesWithin = 5 * time.Second
	// maxNodes bounds the nodes that are kept, and maxNodeText each of their words.
	maxNodes    = 256
	maxNodeText = 128
)

// NodeLister returns the platform's nodes. A Lister may be one.
type NodeLister interface {
	Nodes(ctx context.Context) ([]platform.Node, error)
}

// nodes are the platform's nodes, read again when they are old. An error keeps the known ones, and a
// node that does not answer stays as it was known. The caller holds the turn.
func (p *Platform) nodes(ctx context.Context) []placement.Node {
	lister, names := p.lister.(NodeLister)
	if age := p.now().Sub(p.nodesAt); !names || !p.nodesAt.IsZero() && age >= 0 && age < nodesFor {
		return p.known
	}
	p.nodesAt = p.now()
	ctx, cancel := context.WithTimeout(ctx, nodesWithin)
	defer cancel()
	list, err := lister.Nodes(ctx)
	partial, some := errors.AsType[*platform.Unanswered](err)
	if err != nil && !some {
		return p.known
	}
	nodes := bounded(list)
	if some {
		for _, n := range partial.Nodes {
			if was, ok := placement.Find(p.known, n.Node); ok {
				nodes = append(nodes, was)
			}
		}
		slices.SortFunc(nodes, func(a, b placement.Node) int { return cmp.Compare(a.ID, b.ID) })
	}
	p.known = nodes
	return p.known
}

// bounded returns the nodes whose words can be recorded and shown. Of too many, the first by id stay.
func bounded(list []platform.Node) []placement.Node {
	out := make([]placement.Node, 0, min(len(list), maxNodes))
	for _, n := range list {
		if n.ID != "" && usable(n.ID) && usable(n.Name) && usable(n.Region) {
			out = append(out, placement.Node{ID: n.ID, Name: n.Name, Region: n.Region, Free: max(n.CVMSlots, 0)})
		}
	}
	slices.SortFunc(out, func(a, b placement.Node) int { return cmp.Compare(a.ID, b.ID) })
	out = slices.CompactFunc(out, func(a, b placement.Node) bool { return a.ID == b.ID })
	return out[:min(len(out), maxNodes)]
}

// usable: the platform's word for a place is short and printable. Cadre records and shows it.
func usable(text string) bool {
	return len(text) <= maxNodeText && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// dropNodes removes unusable words: the node of such a CVM is unknown.
func dropNodes(list []platform.Instance) {
	for i := range list {
		if !usable(list[i].Node) {
			list[i].Node = ""
		}
	}
}

// silent are the nodes that did not answer the Listing, sorted.
func (l Listing) silent() (ids []string) {
	if l.Unanswered != nil {
		for _, n := range l.Unanswered.Nodes {
			ids = append(ids, n.Node)
		}
	}
	slices.Sort(ids)
	return ids
}

// places are the platform's nodes as a group's placement needs them. v has the records of all groups.
func places(v *view.View, spec group.Spec, listing Listing) rollout.Places {
	out := rollout.Places{Nodes: slices.Clone(listing.Nodes)}
	for _, id := range listing.silent() {
		if at := slices.IndexFunc(out.Nodes, func(n placement.Node) bool { return n.ID == id }); at >= 0 {
			out.Nodes[at].Silent = true
		} else {
			out.Nodes = append(out.Nodes, placement.Node{ID: id, Silent: true})
		}
	}
	for _, name := range slices.Concat(spec.Placement.With, spec.Placement.NotWith) {
		_, _, known := v.InForce(name)
		other := placement.Other{Group: name, Known: known}
		for _, record := range v.SlotsOf(name) {
			if node := nodeOf(v, record, listing); node != "" {
				other.Nodes = append(other.Nodes, node)
			}
		}
		slices.Sort(other.Nodes)
		out.Others = append(out.Others, other)
	}
	return out
}

// nodeOf is the node of a Slot's CVM: by the listing, by the call that makes the CVM, or by the record.
func nodeOf(v *view.View, record group.SlotRecord, listing Listing) string {
	if i, _ := instances(record, listing); i != nil && i.Node != "" {
		return i.Node
	}
	if open, is := v.OpenOperation(record.Slot); is && open.Value.Call.Part == operation.PartCreate && open.Value.Call.Node != "" {
		return open.Value.Call.Node
	}
	return record.Node
}
