package rollout

// keepNode records the node of the bound CVM, for a group whose records need it.
func (w *world) keepNode(m *member) {
	switch i := m.seen.Instance; {
	case !w.spec.RecordsNodes():
		m.record.Node = ""
	case i != nil && i.Node != "" && m.bound(i):
		m.record.Node = i.Node
	}
}
