package rollout

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/core/operation"
)

// A platform of several hosts answers for the nodes that answer. A CVM on another node is unknown: it may run, so that
// its Slot is neither missing nor vanished, and no call is made to it.

// silentNode returns why the platform's view of m is unknown although the platform answered; "": the view is known.
// Without a recorded node, the CVM may be on any silent node, unless no call ever made one.
func (w *world) silentNode(m *member) string {
	silent, node := w.obs.SilentNodes, m.record.Node
	if len(silent) == 0 || m.seen.Instance != nil || m.declaredLost() && !m.heardNow() {
		return ""
	}
	if op := m.open; node == "" && op != nil && makes(op) {
		node = op.Call.Node
	}
	made := !m.missing() || len(m.record.Lineage) > 0 || slices.ContainsFunc(m.makers, func(op *operation.Operation) bool {
		return op.Call.Number > 1 || !op.Call.InVain()
	})
	switch {
	case node != "" && slices.Contains(silent, node):
		return "node " + node + " does not answer"
	case node != "" || !made:
		return ""
	}
	return fmt.Sprintf("%s %s not answer, and %s may be there", plural(len(silent), "node")+" "+Few(silent, ", "), pick(len(silent) == 1, "does", "do"), m.slot)
}

// declaredLost: an operator's request to replace m says that its CVM is lost, so that the new CVM does not wait for the
// node of the old CVM.
func (m *member) declaredLost() bool {
	if m.open != nil {
		return m.open.Kind == operation.Replace && m.open.CVM.VMUUID == ""
	}
	return m.asked(RequestReplace)
}

// keepNode records the node of the bound CVM, for a group whose records need it.
func (w *world) keepNode(m *member) {
	i := m.seen.Instance
	needs := w.spec.Platform == group.PlatformVMM || !reflect.ValueOf(w.spec.Placement).IsZero()
	if needs && i != nil && i.Node != "" && m.bound(i) {
		m.record.Node = i.Node
	}
}

// unknownMembers names the silent nodes with the members that are unknown for that; "": there are none.
func (w *world) unknownMembers() string {
	var order []string
	slots := map[string][]string{}
	for _, m := range w.everyone {
		if why := w.silentNode(m); why != "" {
			if len(slots[why]) == 0 {
				order = append(order, why)
			}
			slots[why] = append(slots[why], m.slot)
		}
	}
	for i, why := range order {
		of := slots[why]
		order[i] = fmt.Sprintf("%s: %s %s unknown; if the node is lost for good: cadre instance replace SLOT", why, Few(of, ", "), pick(len(of) == 1, "is", "are"))
	}
	return strings.Join(order, "; ")
}
