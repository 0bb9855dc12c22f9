package genesis

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"cadre.dev/platform"
)

// slotShape is how the name of a Slot's CVM ends, the coordinators' included.
var slotShape = regexp.MustCompile(`-[0-9]+$`)

// nameFree refuses the name of a new cluster if CVMs of the account could get the same names as its own. A CVM is
// called CLUSTER-SLOT: cluster a with group b-c and cluster a-b with group c would both call one a-b-c-0, and
// each would see the CVM of the other as its own. Two creations at the same moment are not seen.
func nameFree(list []platform.Instance, cluster string) error {
	for _, i := range list {
		if meets(strings.ToLower(i.Name), strings.ToLower(cluster)) {
			return fmt.Errorf("cluster name %q: the account has CVM %s (app %s), and two clusters whose names begin alike, as a and a-b, could give CVMs the same name: choose another cluster name, or delete that CVM",
				cluster, i.Name, cmp.Or(i.AppID, "unknown"))
		}
	}
	return nil
}

// meets: the CVM called name belongs to a cluster whose CVM names could equal names of cluster.
func meets(name, cluster string) bool {
	if !slotShape.MatchString(name) {
		return false
	}
	other, _, coordinator := strings.Cut(name, "-coordinator-")
	return strings.HasPrefix(name, cluster+"-") || coordinator && strings.HasPrefix(cluster, other+"-")
}
