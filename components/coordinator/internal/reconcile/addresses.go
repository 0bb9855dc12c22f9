package reconcile

import (
	"fmt"
	"net/netip"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/group"
)

// addresses gives a virtual address to each of the group's Slots that has none:
// 127.50.<k>.<ordinal+1>, with one k per group, from 1 on. What a Slot has it
// keeps. Slots are returned by ordinal; changed says whether any was given.
func addresses(v *view.View, name string, slots []group.SlotRecord) (out []group.SlotRecord, changed bool, err error) {
	used := map[byte]bool{}
	var own byte
	for _, s := range v.Slots {
		addr, err := netip.ParseAddr(s.Value.VIP)
		if err != nil || !addr.Is4() {
			continue
		}
		k := addr.As4()[2]
		used[k] = true
		if s.Value.Group == name {
			own = k
		}
	}
	for k := 1; own == 0 && k < 255; k++ {
		if !used[byte(k)] {
			own = byte(k)
		}
	}
	if own == 0 {
		return nil, false, fmt.Errorf("no virtual network is left for group %s: 254 groups have one", name)
	}
	out = append(out, slots...)
	for i := range out {
		if out[i].VIP != "" {
			continue
		}
		out[i].VIP = netip.AddrFrom4([4]byte{127, 50, own, byte(out[i].Ordinal + 1)}).String()
		changed = true
	}
	return out, changed, nil
}
