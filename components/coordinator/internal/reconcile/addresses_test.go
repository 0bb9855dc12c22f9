package reconcile

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"cadre.dev/coordinator/internal/view"
	"cadre.dev/core/address"
	"cadre.dev/core/group"
	"cadre.dev/store"
)

// slotsFor returns the records of a group's Slots; from the have-th on they have no address.
func slotsFor(v *view.View, name string, n int) (out []group.SlotRecord) {
	for i := range n {
		s := group.SlotRecord{Group: name, Slot: group.SlotName(name, i), Ordinal: i}
		if before, ok := v.Slots[s.Slot]; ok {
			s = before.Value
		}
		out = append(out, s)
	}
	return out
}

// give writes the addresses as a pass does.
func give(t *testing.T, v *view.View, name string, n int) []group.SlotRecord {
	t.Helper()
	used, err := v.AddressesUsed("")
	if err != nil {
		t.Fatal(err)
	}
	slots, given, err := addresses(v, name, slotsFor(v, name, n), used)
	if err != nil {
		t.Fatal(err)
	}
	v.Addresses[name] = view.Rec[address.Given]{Value: given, Index: 1}
	for _, s := range slots {
		if before := v.Slots[s.Slot].Value.VIP; before != "" && before != s.VIP {
			t.Fatalf("%s had %s and got %s", s.Slot, before, s.VIP)
		}
		v.Slots[s.Slot] = view.Rec[group.SlotRecord]{Value: s, Index: 1}
	}
	return slots
}

func emptyView() *view.View {
	return &view.View{Slots: map[string]view.Rec[group.SlotRecord]{}, Addresses: map[string]view.Rec[address.Given]{}}
}

// distinct fails when two Slots have one address.
func distinct(t *testing.T, v *view.View) {
	t.Helper()
	seen := map[netip.Addr]string{}
	for slot, s := range v.Slots {
		addr, err := netip.ParseAddr(s.Value.VIP)
		if err != nil || !address.Space.Contains(addr) || seen[addr] != "" {
			t.Fatalf("%s: %q, as %q", slot, s.Value.VIP, seen[addr])
		}
		seen[addr] = slot
	}
}

// TestAddressesFromBeforeThereWereBlocksStay: groups whose Slots are in 127.50.0.0/16 keep those
// addresses and get further ones elsewhere. Groups that come and go never share an address, also
// where the record of the blocks is lost.
func TestAddressesFromBeforeThereWereBlocksStay(t *testing.T) {
	v := emptyView()
	for k := 1; k <= 20; k++ {
		for i := range 3 {
			name := fmt.Sprintf("old%d", k)
			s := group.SlotRecord{Group: name, Slot: group.SlotName(name, i), Ordinal: i, VIP: fmt.Sprintf("127.50.%d.%d", k, i+1)}
			v.Slots[s.Slot] = view.Rec[group.SlotRecord]{Value: s, Index: 1}
		}
	}
	if got := give(t, v, "old7", 5)[4].VIP; got != "127.50.7.5" {
		t.Errorf("the fifth of an old group has %s", got)
	}
	give(t, v, "old7", 300)
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		name := fmt.Sprintf("g%d", r.IntN(20))
		if r.IntN(8) == 0 {
			delete(v.Addresses, name)
		}
		give(t, v, name, 1+r.IntN(40))
		distinct(t, v)
	}
	give(t, v, "big", 2000)
	distinct(t, v)
}

// TestNoAddressIsGivenWhileARecordMayNameIt also holds for an unreadable record.
func TestNoAddressIsGivenWhileARecordMayNameIt(t *testing.T) {
	v := emptyView()
	v.Bad = []*store.RecordError{{Key: store.AddressesKey("other"), Err: fmt.Errorf("not a JSON object")}}
	if _, err := v.AddressesUsed(""); err == nil {
		t.Error("given all the same")
	}
}

// TestAddressesOfAGroupThatIsGoneAreFreeADayLater, and not while a Slot of the group is left.
func TestAddressesOfAGroupThatIsGoneAreFreeADayLater(t *testing.T) {
	m := newRemains(t)
	block := address.Block{First: -1, Net: netip.MustParsePrefix("127.32.0.0/29")}
	m.put(store.AddressesKey("web"), address.Given{Group: "web", Blocks: []address.Block{block}})
	m.put(store.AddressesKey("kept"), address.Given{Group: "kept", Blocks: []address.Block{block}})
	m.put(store.SlotKey("kept", "kept-0"), group.SlotRecord{Group: "kept", Slot: "kept-0", VIP: "127.32.0.1"})
	m.want("when it went")
	m.now = m.now.Add(addressesKept - time.Minute)
	m.want("a day later, nearly")
	m.now = m.now.Add(2 * time.Minute)
	m.want("a day later", store.AddressesKey("web"))
}
