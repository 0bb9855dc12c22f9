package group

import (
	"regexp"
	"testing"
)

func TestNodeIDIsAUUIDOfClusterAndSlot(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]string{}
	for _, of := range [][2]string{{"demo", "pg-0"}, {"demo", "pg-1"}, {"demo2", "pg-0"}, {"demop", "g-0"}} {
		id := NodeID(of[0], of[1])
		if !form.MatchString(id) || seen[id] != "" || id != NodeID(of[0], of[1]) {
			t.Errorf("%v: %q, also of %q", of, id, seen[id])
		}
		seen[id] = of[1]
	}
}
