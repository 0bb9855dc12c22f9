package store_test

import (
	"errors"
	"testing"

	"cadre.dev/store"
)

func TestTheScopeOfAGateNamesItsGroup(t *testing.T) {
	for scope, want := range map[string]string{
		"pg/balancer": "pg", "pg/balancer/pg-0": "pg",
		"": "", "pg": "", "pg/": "", "/balancer": "", "pg/balancer/": "", "pg/balancer/web-0": "", "pg/balancer/pg-b-0": "",
		"pg/balancer/pg-00": "", "pg/balancer/pg": "", "pg/Balancer": "", "pg/balancer/pg-0/x": "", "pg/a/b": "", "_all/balancer": "",
	} {
		got, ok := store.OverrideGate.Group(scope)
		key := store.OverrideKey(store.OverrideGate, scope)
		if err := store.CheckKey(key); ok != (want != "") || ok && got != want || ok != (err == nil) || err != nil && !errors.Is(err, store.ErrBadKey) {
			t.Errorf("%q: group %q, %t; key %q: %v", scope, got, ok, key, err)
		}
	}
}
