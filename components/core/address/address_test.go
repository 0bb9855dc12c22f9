package address_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"cadre.dev/core/address"
)

// world is the leader's knowledge: the blocks of each group and the Slot of each address.
type world struct {
	t      *testing.T
	given  map[string]address.Given
	holder map[netip.Addr]string
}

func newWorld(t *testing.T) *world {
	return &world{t: t, given: map[string]address.Given{}, holder: map[netip.Addr]string{}}
}

func (w *world) others(name string) (used address.Used) {
	for other, g := range w.given {
		if other != name {
			used.AddAll(g)
		}
	}
	return used
}

// resize gives the group blocks for n Slots, and checks the permanent rules.
func (w *world) resize(name string, n int, used address.Used) {
	w.t.Helper()
	before := w.given[name]
	before.Group = name
	after, err := address.Allot(before, n, used)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := after.Check(); err != nil {
		w.t.Fatalf("%s for %d: %v", name, n, err)
	}
	if !slices.Equal(after.Blocks[:len(before.Blocks)], before.Blocks) {
		w.t.Fatalf("%s: %v became %v: what was given does not stay", name, before.Blocks, after.Blocks)
	}
	if again, err := address.Allot(after, n, used); err != nil || len(again.Blocks) != len(after.Blocks) {
		w.t.Fatalf("%s: the same need gave %v, %v", name, again.Blocks, err)
	}
	w.given[name] = after
	seen := map[netip.Addr]bool{}
	for i := range n {
		addr, ok := after.Address(i, func(netip.Addr) bool { return false })
		slot := fmt.Sprintf("%s-%d", name, i)
		if !ok || seen[addr] || !address.Space.Contains(addr) || address.Fixed.Contains(addr) && !address.Fixed.Contains(after.Blocks[0].Net.Addr()) {
			w.t.Fatalf("%s: address %v of %v", slot, addr, after.Blocks)
		}
		seen[addr] = true
		if other := w.holder[addr]; other != "" && other != slot {
			w.t.Fatalf("%v of %s is %s's", addr, slot, other)
		}
		w.holder[addr] = slot
		around, ok := address.Around(addr, i)
		if own, has := around.Address(i); !ok || !has || own != addr {
			w.t.Fatalf("around %v of %s: %v", addr, slot, around)
		}
	}
}

// TestGroupsGrowShrinkAndGoWithoutEverSharingAnAddress: any order of groups that come,
// grow, and go.
func TestGroupsGrowShrinkAndGoWithoutEverSharingAnAddress(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t)
		for range 120 {
			name := fmt.Sprintf("g%d", r.IntN(25))
			if r.IntN(6) == 0 {
				for addr, slot := range w.holder {
					if len(slot) > len(name) && slot[:len(name)+1] == name+"-" {
						delete(w.holder, addr)
					}
				}
				delete(w.given, name)
				continue
			}
			n := 1 + r.IntN(12)
			if r.IntN(5) == 0 {
				n = 1 + r.IntN(2000)
			}
			w.resize(name, n, w.others(name))
		}
	}
}

// TestGroupThatGrowsOneByOneHasFewBlocks up to the largest.
func TestGroupThatGrowsOneByOneHasFewBlocks(t *testing.T) {
	w := newWorld(t)
	for n := 1; n <= 2000; n++ {
		w.resize("big", n, w.others("big"))
		if n%100 == 0 {
			w.resize(fmt.Sprintf("small%d", n), 3, w.others(fmt.Sprintf("small%d", n)))
		}
	}
	if got := len(w.given["big"].Blocks); got > 12 {
		t.Errorf("%d blocks: %v", got, w.given["big"].Blocks)
	}
}

// TestTenThousandGroupsOfThreeAndOneOfTwoThousandFit in addition to the earlier ones.
func TestTenThousandGroupsOfThreeAndOneOfTwoThousandFit(t *testing.T) {
	w := newWorld(t)
	var used address.Used
	for k := 1; k < 255; k++ {
		b, ok := address.Around(netip.AddrFrom4([4]byte{127, 50, byte(k), 3}), 2)
		if !ok || b.Net.String() != fmt.Sprintf("127.50.%d.0/24", k) || b.First != -1 {
			t.Fatalf("%v", b)
		}
		used.Add(b.Net)
	}
	for i := range 10_000 {
		name := fmt.Sprintf("g%d", i)
		w.resize(name, 3, used)
		used.AddAll(w.given[name])
	}
	w.resize("big", 2000, used)
	if len(w.given["big"].Blocks) != 1 {
		t.Errorf("%v", w.given["big"].Blocks)
	}
}

// TestExhaustedSaysSoAndGivesNothing.
func TestExhaustedSaysSoAndGivesNothing(t *testing.T) {
	var used address.Used
	used.Add(netip.MustParsePrefix("127.32.0.0/12"))
	if _, err := address.Allot(address.Given{Group: "web"}, 3, used); err != nil {
		t.Error(err)
	}
	used.Add(netip.MustParsePrefix("127.48.0.0/12"))
	g, err := address.Allot(address.Given{Group: "web"}, 3, used)
	if !errors.Is(err, address.ErrExhausted) || len(g.Blocks) != 0 {
		t.Errorf("%v %v", g, err)
	}
	var all address.Used
	all.Add(netip.MustParsePrefix("127.0.0.0/8"))
	if _, err := address.Allot(address.Given{Group: "web"}, 2000, all); !errors.Is(err, address.ErrExhausted) {
		t.Error(err)
	}
}

// TestAnAddressThatSomethingNamesIsNotGiven, a single one too.
func TestAnAddressThatSomethingNamesIsNotGiven(t *testing.T) {
	named := netip.MustParsePrefix("127.32.0.2/32")
	var used address.Used
	used.Add(named)
	g, err := address.Allot(address.Given{Group: "web"}, 3, used)
	if err != nil || g.Blocks[0].Net.Overlaps(named) {
		t.Errorf("%v %v", g, err)
	}
}

// TestAroundRefusesAnAddressOutsideAnyBlock: a Boot may claim an address outside any block.
func TestAroundRefusesAnAddressOutsideAnyBlock(t *testing.T) {
	for _, c := range []struct {
		addr    string
		ordinal int
		ok      bool
	}{
		{"127.50.4.2", 1, true}, {"127.50.4.3", 1, false}, {"127.50.0.2", 1, false}, {"127.32.0.2", 1, true}, {"127.32.0.3", 1, false},
		{"127.32.0.10", 9, true}, {"127.63.255.250", 1, true}, {"127.64.0.2", 1, false}, {"10.0.0.2", 1, false}, {"::1", 0, false}, {"127.32.0.2", -1, false},
		{"127.40.1.0", 7, true},
	} {
		if b, ok := address.Around(netip.MustParseAddr(c.addr), c.ordinal); ok != c.ok {
			t.Errorf("around %s of ordinal %d: %v, %v", c.addr, c.ordinal, b, ok)
		}
	}
	if _, ok := address.Around(netip.Addr{}, 0); ok {
		t.Error("no address has a block")
	}
}

// TestAdoptedAddressComesFirst: a member with lost records keeps its address, and its siblings get
// theirs from the same block.
func TestAdoptedAddressComesFirst(t *testing.T) {
	g, err := address.Allot(address.Given{Group: "web"}, 3, address.Used{})
	if err != nil {
		t.Fatal(err)
	}
	own := netip.MustParseAddr("127.40.1.11")
	with, ok := g.With(own, 2)
	if !ok || len(with.Blocks) != 2 || with.Check() != nil {
		t.Fatalf("%v %v", with, ok)
	}
	free := func(netip.Addr) bool { return false }
	if a, _ := with.Address(2, free); a != own {
		t.Errorf("got %v", a)
	}
	if a, _ := with.Address(0, free); a.String() != "127.40.1.9" {
		t.Errorf("its sibling got %v", a)
	}
	if a, _ := with.Address(0, func(a netip.Addr) bool { return a.String() == "127.40.1.9" }); a.String() != "127.32.0.1" {
		t.Errorf("where that is taken: %v", a)
	}
	if again, ok := with.With(own, 2); !ok || len(again.Blocks) != 2 {
		t.Errorf("%v", again)
	}
}
