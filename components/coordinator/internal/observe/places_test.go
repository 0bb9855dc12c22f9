package observe_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/observe"
	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
	"cadre.dev/core/operation"
	"cadre.dev/core/placement"
	"cadre.dev/platform"
)

// hosts is a platform of several nodes.
type hosts struct {
	list  []platform.Instance
	nodes []platform.Node
	err   error // of the nodes
	lacks error // of the list
	asked int
}

func (h *hosts) List(context.Context, string) ([]platform.Instance, error) { return h.list, h.lacks }

func (h *hosts) Nodes(context.Context) ([]platform.Node, error) {
	h.asked++
	return h.nodes, h.err
}

// The nodes are read once a minute; a failed read keeps the known ones, and is not repeated at once.
func TestNodesAreReadOnceAMinute(t *testing.T) {
	now := time.Unix(1000, 0)
	h := &hosts{nodes: []platform.Node{{ID: "2", Name: "b", Region: "west", CVMSlots: 3}, {ID: "1", Name: "a", CVMSlots: -1}}}
	p := observe.NewPlatform(h, func() time.Time { return now }, time.Minute)
	want := []placement.Node{{ID: "1", Name: "a"}, {ID: "2", Name: "b", Region: "west", Free: 3}}
	for _, step := range []struct {
		after time.Duration
		err   error
		asked int
	}{{0, nil, 1}, {30 * time.Second, nil, 1}, {31 * time.Second, errors.New("no answer"), 2}, {time.Second, nil, 2}, {-time.Hour, nil, 3}} {
		now, h.err = now.Add(step.after), step.err
		if got := p.List(t.Context(), "", 0).Nodes; !reflect.DeepEqual(got, want) || h.asked != step.asked {
			t.Errorf("after %s: %+v, %d reads, want %d", step.after, got, h.asked, step.asked)
		}
	}
}

// Words of the platform that cannot be recorded are dropped, and there are at most 256 nodes.
func TestThePlatformsWordsForPlacesAreBounded(t *testing.T) {
	h := &hosts{list: []platform.Instance{{Name: "c-pg-0", Node: strings.Repeat("x", 1<<20)}, {Name: "c-pg-1", Node: "a\nb"}, {Name: "c-pg-2", Node: "a"}}}
	for i := range 300 {
		h.nodes = append(h.nodes, platform.Node{ID: fmt.Sprintf("n%03d", i)})
	}
	h.nodes = append(h.nodes, platform.Node{ID: ""}, platform.Node{ID: "m", Name: strings.Repeat("x", 1000)}, platform.Node{ID: "k", Region: "a\x00"}, platform.Node{ID: "n001"})
	got := observe.NewPlatform(h, time.Now, time.Minute).List(t.Context(), "", 0)
	if len(got.Nodes) != 256 || got.Nodes[0].ID != "n000" || got.Nodes[255].ID != "n255" {
		t.Errorf("%d nodes, from %+v", len(got.Nodes), got.Nodes[0])
	}
	for i, want := range []string{"", "", "a"} {
		if got.Instances[i].Node != want {
			t.Errorf("instance %d is on %.20q, want %q", i, got.Instances[i].Node, want)
		}
	}
}

// A group sees the nodes, which of them do not answer, and where the members of the named groups are: by the list, by
// the call that makes them, by the record.
func TestAGroupSeesThePlaces(t *testing.T) {
	rec := func(slot, node string) view.Rec[group.SlotRecord] {
		return view.Rec[group.SlotRecord]{Value: group.SlotRecord{Group: slot[:len(slot)-2], Slot: slot, PlatformName: "c-" + slot, Node: node}}
	}
	spec := group.Spec{Name: "pg", Placement: group.Placement{With: []string{"web"}, NotWith: []string{"gone"}}}
	v := &view.View{
		Specs: map[string]view.Spec{"web": {}},
		Slots: map[string]view.Rec[group.SlotRecord]{"pg-0": rec("pg-0", ""), "web-0": rec("web-0", "old"), "web-1": rec("web-1", ""), "web-2": rec("web-2", "c")},
		Operations: map[string]view.Rec[operation.Operation]{"o": {Value: operation.Operation{ID: "o", Group: "web", Slot: "web-1", Kind: operation.Create, Phase: operation.Acting,
			Call: operation.Call{Part: operation.PartCreate, Node: "b"}}}},
	}
	h := &hosts{
		list:  []platform.Instance{{Name: "c-pg-0", VMUUID: "v0", Node: "a"}, {Name: "c-web-0", VMUUID: "v1", Node: "a"}},
		nodes: []platform.Node{{ID: "a"}, {ID: "b"}},
		lacks: &platform.Unanswered{Nodes: []platform.NodeError{{Node: "b", Err: errors.New("refused")}, {Node: "c", Err: errors.New("refused")}}},
	}
	seen := observe.Group(v, spec, "c", observe.NewPlatform(h, time.Now, time.Minute).List(t.Context(), "", 0), noReports{})
	if got, want := seen.Now.Nodes, []placement.Node{{ID: "a"}, {ID: "b", Silent: true}, {ID: "c", Silent: true}}; !reflect.DeepEqual(got, want) {
		t.Errorf("nodes %+v, want %+v", got, want)
	}
	if got, want := seen.Now.Others, []placement.Other{{Group: "web", Known: true, Nodes: []string{"a", "b", "c"}}, {Group: "gone"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("others %+v, want %+v", got, want)
	}
	if i := seen.Now.Slots[0].Instance; i == nil || i.Node != "a" {
		t.Errorf("the instance %+v has no node", i)
	}
}
