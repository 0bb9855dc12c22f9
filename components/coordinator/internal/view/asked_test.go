package view_test

import (
	"strings"
	"testing"

	"cadre.dev/store"
)

// TestARequestNamesTheGroupOfItsKey: an operator of the group web may write the keys of web. The
// other parts of such a key may be names of groups as well.
func TestARequestNamesTheGroupOfItsKey(t *testing.T) {
	keys := []string{store.DeleteGroupKey("web"), store.DeleteDisksKey("web"), store.AdoptKey("web")}
	for _, key := range keys {
		for _, other := range strings.Split(strings.TrimSuffix(key, "/web"), "/") {
			v := read(t, map[string]string{key: `{"group":"` + other + `","reason":"x","by":"ann","at":"2026-01-01T00:00:00Z"}`})
			if len(v.Bad) != 1 || len(v.Deletes)+len(v.DeleteDisks)+len(v.Adoptions) != 0 {
				t.Errorf("%s for group %s: %d bad records, %v, %v, %v", key, other, len(v.Bad), v.Deletes, v.DeleteDisks, v.Adoptions)
			}
		}
		v := read(t, map[string]string{key: `{"group":"web","reason":"x","by":"ann","at":"2026-01-01T00:00:00Z"}`})
		if len(v.Bad) != 0 || len(v.Deletes)+len(v.DeleteDisks)+len(v.Adoptions) != 1 {
			t.Errorf("%s: %v", key, v.Bad)
		}
	}
}
