package view

import (
	"cmp"
	"context"
	"slices"

	"cadre.dev/core/group"
	"cadre.dev/store"
)

// readInstances reads the states of the Slots and adds them to the status of each group.
func (v *View) readInstances(ctx context.Context, at moment, errs *[]error) {
	// The end of the key must match the group and Slot named in the record.
	named := collect(ctx, at, store.GroupsPrefix, errs, func(s group.InstanceStatus) string { return s.Group + "/slots/" + s.Slot })
	v.Instances = make(map[string]Rec[group.InstanceStatus], len(named))
	counts := map[string]int{}
	for _, i := range named {
		v.Instances[i.Value.Slot] = i
		counts[i.Value.Group]++
	}
	of := make(map[string][]group.InstanceStatus, len(counts))
	for _, i := range named {
		instances, begun := of[i.Value.Group]
		if !begun {
			instances = make([]group.InstanceStatus, 0, counts[i.Value.Group])
		}
		of[i.Value.Group] = append(instances, i.Value)
	}
	for name, instances := range of {
		if status, ok := v.Statuses[name]; ok {
			status.Value.Instances = byOrdinal(instances)
			v.Statuses[name] = status
		}
	}
}

func byOrdinal(instances []group.InstanceStatus) []group.InstanceStatus {
	slices.SortFunc(instances, func(a, b group.InstanceStatus) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.Slot, b.Slot))
	})
	return instances
}

// ReadStatus reads the status of one group with the states of its Slots. It returns
// store.ErrNotFound while there is none. A Slot with an unreadable record is left out.
func ReadStatus(ctx context.Context, s store.Store, name string) (group.Status, error) {
	status, _, err := store.Read[group.Status](ctx, s, store.GroupStatusKey(name))
	if err != nil {
		return group.Status{}, err
	}
	records, _, err := store.ReadAll[group.InstanceStatus](ctx, s, store.SlotStatusesOf(name))
	if err != nil && len(store.RecordErrors(err)) == 0 {
		return group.Status{}, err
	}
	var instances []group.InstanceStatus
	for _, r := range records {
		instances = append(instances, r.Value)
	}
	if len(instances) > 0 {
		status.Instances = byOrdinal(instances)
	}
	return status, nil
}

// IndexOf returns the modify index for a check-and-set of the record at key; read is the index of
// the decoded record. For an unreadable record read would be 0, and IndexOf returns its real index,
// so that the record can be overwritten.
func (v *View) IndexOf(key string, read uint64) uint64 {
	for _, bad := range v.Bad {
		if bad.Key == key {
			return bad.Index
		}
	}
	return read
}
