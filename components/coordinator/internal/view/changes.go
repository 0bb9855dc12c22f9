package view

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"
	"strings"

	"cadre.dev/core/group"
	"cadre.dev/store"
)

// Changes is the difference between two reads of a Watcher's View.
type Changes struct {
	// All means that the change may concern every group. The reader must evaluate all of them.
	All bool
	// Groups maps each group with a changed record to the highest index of its changes. A
	// consistent read at that index or later has seen them. A removed record has the highest
	// possible index.
	Groups map[string]uint64
}

// Any reports whether any group is affected.
func (c Changes) Any() bool { return c.All || len(c.Groups) > 0 }

// Has reports whether a record of the group changed.
func (c Changes) Has(name string) bool {
	_, changed := c.Groups[name]
	return c.All || changed
}

func (c *Changes) add(other Changes) {
	c.All = c.All || other.All
	for name, index := range other.Groups {
		c.group(name, index)
	}
}

func (c *Changes) group(name string, index uint64) {
	if c.Groups == nil {
		c.Groups = map[string]uint64{}
	}
	c.Groups[name] = max(c.Groups[name], index)
}

// stamp identifies the text of a record. The index alone is insufficient: after a snapshot is
// restored, indices can be used again.
type stamp struct{ index, sum uint64 }

var seed = maphash.MakeSeed()

func stampOf(e store.Entry) stamp {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.Write(e.Value) // a hash never fails to write
	_, _ = h.WriteString(e.Session)
	return stamp{e.Index, h.Sum64()}
}

// sumOf is a stamp of several records.
func sumOf(entries []store.Entry) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	var sizes [4 * 8]byte
	for _, e := range entries {
		// The lengths come first, so that two different lists have different encodings.
		for n, size := range [...]uint64{e.Index, uint64(len(e.Key)), uint64(len(e.Value)), uint64(len(e.Session))} {
			binary.BigEndian.PutUint64(sizes[8*n:], size)
		}
		_, _ = h.Write(sizes[:]) // a hash never fails to write
		_, _ = h.WriteString(e.Key)
		_, _ = h.Write(e.Value)
		_, _ = h.WriteString(e.Session)
	}
	return h.Sum64()
}

// stamps returns the stamp of each record of a kind.
func stamps(entries []store.Entry) map[string]stamp {
	out := make(map[string]stamp, len(entries))
	for _, e := range entries {
		out[e.Key] = stampOf(e)
	}
	return out
}

// changes compares two reads of a kind and returns the affected groups.
func changes(was, is map[string]stamp, before, after *View) (c Changes) {
	for key, now := range is {
		if then, known := was[key]; !known || then != now {
			c.concern(key, now.index, before, after)
		}
	}
	for key := range was {
		if _, left := is[key]; !left {
			c.concern(key, math.MaxUint64, before, after)
		}
	}
	return c
}

// wentBack reports whether the store was restored to an older snapshot: a record changed, and its
// index is at most floor. After a restore no index of any kind says when a record was read. floor
// is the highest index seen of the kind; every write gets a higher one.
func wentBack(was, is map[string]stamp, floor uint64) bool {
	for key, now := range is {
		if now.index <= floor && was[key] != now {
			return true
		}
	}
	return false
}

// concern adds the groups that a changed, created or removed record affects.
func (c *Changes) concern(key string, index uint64, before, after *View) {
	segments := strings.Split(key, "/")
	last := segments[len(segments)-1]
	named := func(groups ...string) {
		for _, name := range groups {
			if name != "" {
				c.group(name, index)
			}
		}
	}
	switch prefix := segments[0] + "/"; {
	case slices.Contains([]string{store.GroupsPrefix, store.SlotsPrefix, store.AddressesPrefix, store.ServiceMeshPrefix, store.SecretsPrefix}, prefix) && len(segments) > 1:
		if prefix == store.SecretsPrefix && segments[1] == store.ClusterSecrets {
			c.All = true
		}
		named(segments[1])
	case strings.HasPrefix(key, store.GroupPolicyPrefix):
		named(last)
	case strings.HasPrefix(key, store.PolicyPrefix), prefix == store.AdmissionsPrefix, prefix == store.RefusalsPrefix, prefix == store.ProofsPrefix, prefix == store.MachinesPrefix, strings.HasPrefix(key, store.BootLeasePrefix):
		name, _, _ := group.ParseSlot(last) // a key that is no Slot gives "" and affects no group
		named(name)
	case prefix == store.RevisionsPrefix:
		named(before.Revisions[last].Value.Group, after.Revisions[last].Value.Group)
	case prefix == store.RolloutsPrefix:
		named(before.Rollouts[last].Value.Group, after.Rollouts[last].Value.Group)
	case prefix == store.RoutesPrefix:
		named(before.Routes[last].Value.Group, after.Routes[last].Value.Group)
	case prefix == store.OperationsPrefix:
		named(before.Operations[last].Value.Group, after.Operations[last].Value.Group)
		_, was := before.Operations[last]
		if _, is := after.Operations[last]; !is && !was {
			named(operationOwners(last)...) // an unreadable record holds its group up
		}
	case prefix == store.ControlPrefix:
		c.asked(key, index, segments, before, after)
	}
}

// asked adds the groups that an operator's key affects.
func (c *Changes) asked(key string, index uint64, segments []string, before, after *View) {
	for _, prefix := range []string{store.DeletePrefix, store.DeleteDisksPrefix, store.AdoptPrefix, store.FloorPrefix, store.RotatePrefix, store.SealPrefix} {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		name := segments[2]
		if name == store.Everywhere || name == store.ClusterSecrets {
			c.All = true
		} else {
			c.group(name, index)
		}
		return
	}
	for _, kind := range store.OverrideKinds() {
		scope, is := strings.CutPrefix(key, kind.Prefix())
		if !is {
			continue
		}
		switch name, ok := kind.Group(scope); {
		case ok && name == "":
			c.All = true
		case ok: // otherwise no group is affected
			c.group(name, index)
		}
		return
	}
	id, queued := strings.CutPrefix(key, store.QueuePrefix)
	if !queued {
		c.All = true // a revocation or an approval
		return
	}
	for _, v := range []*View{before, after} {
		q, ok := v.Queue[id]
		if !ok {
			continue
		}
		name, _, _ := group.ParseSlot(q.Value.Slot)
		for _, name := range []string{q.Value.Group, name, after.Operations[q.Value.Operation].Value.Group, before.Operations[q.Value.Operation].Value.Group} {
			if name != "" {
				c.group(name, index)
			}
		}
	}
}
