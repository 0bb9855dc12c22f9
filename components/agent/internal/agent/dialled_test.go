package agent

import (
	"maps"
	"net/netip"
	"testing"

	"cadre.dev/core/group"
)

func TestARouteIsDialledByItsNameAndItsAlias(t *testing.T) {
	own, other := netip.MustParseAddr("127.10.0.1"), netip.MustParseAddr("127.10.0.2")
	got := dialled([]group.RouteTo{{Name: "shop-staging-postgres-master", Alias: "postgres-master", VIP: own}, {Name: "webdemo", VIP: other}})
	if want := map[string]netip.Addr{"shop-staging-postgres-master": own, "postgres-master": own, "webdemo": other}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
