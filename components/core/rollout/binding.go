package rollout

import "cmp"

// bind records the CVM that fills a Slot, at the first listing that shows exactly one CVM with the Slot's name. The
// CVM must be of the right app and created by a platform call of the Slot. A recorded binding stays until an
// operator decides.
func (m *member) bind(appID string) {
	i := m.seen.Instance
	if i == nil || m.unmanaged() || m.former(i) || len(m.seen.Duplicates) > 0 || appID != "" && i.AppID != "" && i.AppID != appID {
		return
	}
	if m.record.VMUUID == "" && (m.record.InstanceID == "" || m.record.InstanceID == i.InstanceID) {
		m.record.VMUUID = i.VMUUID
	}
	if m.record.VMUUID != i.VMUUID {
		return
	}
	if m.record.InstanceID == "" {
		m.record.InstanceID = i.InstanceID
	}
	if m.record.AppID == "" {
		m.record.AppID = i.AppID
	}
}

// removed reports that the Slot is wanted again and that an earlier Delete of the Slot removed its CVM. An operator
// gave up the disk with that CVM, so the CVM is not lost.
func (w *world) removed(m *member) bool {
	return !m.terminating && m.vanished() && w.platformKnown(m) && m.removal != nil
}

// unbind moves the CVM that a Replace removes into the Slot's lineage, once that CVM is gone. From then on, a CVM
// with the Slot's name is the new one. A Replace that was cancelled earlier leaves the Slot bound: the planner
// would fill an empty Slot without a request.
func (w *world) unbind(m *member) {
	op := m.open
	if op == nil && w.removed(m) {
		m.record = m.record.Unbound("removed", w.now)
		return
	}
	if op == nil || !op.MadeWay() || m.record.Incarnation >= op.CVM.Incarnation {
		return
	}
	m.record = m.record.Unbound(cmp.Or(op.Request.Note, "replaced"), w.now)
	m.record.Incarnation = op.CVM.Incarnation
	// The old member is in the set until now. The new member joins only after it.
	m.record.Membership = partOf(nil, op.Set.Joins)
}
